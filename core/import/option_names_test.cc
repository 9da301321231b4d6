#include "core/import/option_names.h"

#include <string>

#include "gtest/gtest.h"

namespace backplane {
namespace {

std::string Check(const std::string& name, const std::string& value) {
  return std::string(CheckOptionNames(StringMap{{name, value}}).message());
}

TEST(OptionNames, NoneAndXlasPass) {
  EXPECT_TRUE(CheckOptionNames({}).ok());
  EXPECT_EQ(Check("xla_dump_to", "anything"), "");
  EXPECT_EQ(Check("xla_tpu_some_flag_of_another_compiler", "?"), "");
}

TEST(OptionNames, OthersAreRefusedByName) {
  EXPECT_EQ(CheckOptionNames(StringMap{{"fast_maths", "true"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Check("fast_maths", "true"),
            "No such compile option: 'fast_maths'; only XLA's are known, whose names begin with xla_");
  EXPECT_NE(Check("", ""), "");
}

TEST(OptionNames, BooleansInTheirSpellings) {
  for (const char* text : {"true", "false", "True", "False", "1", "0"})
    EXPECT_EQ(Check("xla_embed_ir_in_executable", text), "") << text;
  for (const char* text : {"", "yes", "TRUE", "2", "1.5"}) {
    EXPECT_EQ(Check("xla_embed_ir_in_executable", text),
              "compile option xla_embed_ir_in_executable: '" + std::string(text) + "' is not a valid bool value.");
  }
}

TEST(OptionNames, IntegersOfTheirWidth) {
  for (const char* text : {"0", "-1", "200", "2147483647", "-2147483648"})
    EXPECT_EQ(Check("xla_dump_max_hlo_modules", text), "") << text;
  for (const char* text : {"x", "2.5", "true", "", "2147483648", "-2147483649"}) {
    EXPECT_EQ(Check("xla_dump_max_hlo_modules", text),
              "compile option xla_dump_max_hlo_modules: '" + std::string(text) + "' is not a valid int32 value.");
  }
  EXPECT_EQ(Check("xla_gpu_async_copy_min_bytes", "99999999999"), "");
  EXPECT_EQ(Check("xla_gpu_async_copy_min_bytes", "1e3"),
            "compile option xla_gpu_async_copy_min_bytes: '1e3' is not a valid int64 value.");
}

TEST(OptionNames, Fractions) {
  const std::string name = "xla_gpu_auto_spmd_partitioning_memory_budget_ratio";
  for (const char* text : {"0.5", "1", "-1e-3"}) EXPECT_EQ(Check(name, text), "") << text;
  for (const char* text : {"a", "", "nan", "0.5x"})
    EXPECT_EQ(Check(name, text), "compile option " + name + ": '" + text + "' is not a valid float value.");
}

}  // namespace
}  // namespace backplane
