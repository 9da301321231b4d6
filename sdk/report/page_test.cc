// Tests the text of the page: it contains the documents and has no external references. browser_test.py opens it.
#include "sdk/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace backplane::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the documents in a page, as its script would read them.
std::vector<std::string> Documents(const std::string& page) {
  std::vector<std::string> found;
  const std::string open = "<script type=\"application/json\" class=\"document\"", close = "</script>";
  for (size_t at = page.find(open); at != std::string::npos; at = page.find(open, at + 1)) {
    const size_t begin = page.find('>', at) + 1;
    found.push_back(absl::StrReplaceAll(page.substr(begin, page.find(close, begin) - begin), {{"\\u003c", "<"}}));
  }
  return found;
}

TEST(Page, HoldsAllDocumentsWhole) {
  const std::string a = R"({"format":"backplane.tpu_report","version":1,"module":"</script><!-- a"})", b = "not JSON";
  EXPECT_THAT(Documents(FormatPage({{"first", a}, {"second", b}})), ElementsAre(a, b));
  EXPECT_THAT(Documents(FormatPage({})), ElementsAre());
}

TEST(Page, NothingInADocumentEndsItsElement) {
  const std::string page = FormatPage({{"", R"({"module":"</script><img src=x>"})"}});
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr(R"(\u003c/script>\u003cimg src=x>)"));
}

TEST(Page, TitlesAreText) {
  const std::string page = FormatPage({{"a \"b\" <c> & d", "{}"}});
  EXPECT_THAT(page, HasSubstr("data-title=\"a &quot;b&quot; &lt;c> &amp; d\""));
}

TEST(Page, RefersToNothingOutside) {
  const std::string page = FormatPage({});
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
  EXPECT_THAT(page, Not(HasSubstr("@STYLE@")));
  EXPECT_THAT(page, Not(HasSubstr("@SCRIPT@")));
  for (const char* word :
       {"://", "@import", "url(", "<link", "src=", "fetch(", "XMLHttpRequest", "import(", "srcset"}) {
    EXPECT_THAT(page, Not(HasSubstr(word)));
  }
  // Links within the page only.
  const std::regex href("href=\"([^\"]*)\"");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), href); it != std::sregex_iterator(); ++it) {
    EXPECT_EQ((*it)[1].str().front(), '#') << (*it)[0];
  }
}

}  // namespace
}  // namespace backplane::report
