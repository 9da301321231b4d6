#include "conformance/kit/json.h"

#include <gtest/gtest.h>

namespace backplane::conformance {
namespace {

TEST(Json, QuotesWhatJsonDoesNotAllow) {
  EXPECT_EQ(JsonQuote("plain"), "\"plain\"");
  EXPECT_EQ(JsonQuote("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
  EXPECT_EQ(JsonQuote(absl::string_view("\0\x1f", 2)), "\"\\u0000\\u001f\"");
  EXPECT_EQ(JsonQuote("\xc3\xa4"), "\"\xc3\xa4\"");  // UTF-8 stays
  EXPECT_EQ(JsonQuote("\xc3(\xff"), "\"?(?\"");      // what is none does not
  EXPECT_EQ(JsonQuote("\xe2\x82"), "\"??\"");        // nor what was cut off
}

TEST(Json, ReadsWhatItQuotes) {
  for (const std::string& text : {std::string("a\"b\\c\nd\t"), std::string("\0\1", 2), std::string("\xe2\x82\xac")}) {
    const auto parsed = ParseJson(JsonQuote(text));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->kind, Json::kString);
    EXPECT_EQ(parsed->string, text);
  }
}

TEST(Json, ReadsNestedValues) {
  const auto parsed = ParseJson(R"( {"a": [1, -2.5e1, true, null], "b": {"c": "x\u0041\/"}} )");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->Find("a")->items.size(), 4u);
  EXPECT_EQ(parsed->Find("a")->items[1].number, -25);
  EXPECT_TRUE(parsed->Find("a")->items[2].boolean);
  EXPECT_EQ(parsed->Find("b")->Text("c"), "xA/");
  EXPECT_EQ(parsed->Find("absent"), nullptr);
  EXPECT_EQ(parsed->Text("a"), "");
}

TEST(Json, RefusesWhatIsNone) {
  for (const char* text :
       {"", "{", "[1,", "{\"a\" 1}", "\"open", "tru", "1 2", "{\"a\":}", "\"\\q\"", "\"\\u12\"", "[1,]"}) {
    EXPECT_FALSE(ParseJson(text).ok()) << text;
  }
  EXPECT_FALSE(ParseJson(std::string(100000, '[')).ok());  // too deep
}

}  // namespace
}  // namespace backplane::conformance
