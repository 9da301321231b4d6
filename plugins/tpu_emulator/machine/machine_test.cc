#include "plugins/tpu_emulator/machine/machine.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace backplane::tpu {
namespace {

TEST(Machine, BuiltInMachinesAreValidAndFoundByName) {
  ASSERT_EQ(KnownMachines().size(), 5u);
  for (const Machine& machine : KnownMachines()) {
    EXPECT_TRUE(CheckMachine(machine).ok()) << machine.name << ": " << CheckMachine(machine);
    EXPECT_EQ(FindMachine(machine.name), &machine);
  }
  EXPECT_EQ(FindMachine("v3"), nullptr);
  EXPECT_EQ(FindMachine(""), nullptr);
}

// The peak follows from cells, clock and cores, so an error in any of them fails here.
TEST(Machine, PeaksMatchThePublishedOnes) {
  const struct {
    const char* name;
    double devices_a_chip, teraflops, gb_per_s;
  } published[] = {{"v4", 2, 275, 1228},
                   {"v5e", 1, 197, 819},
                   {"v5p", 1, 459, 2765},
                   {"v6e", 1, 918, 1638},
                   {"tpu7x", 2, 2307, 7372}};
  for (const auto& chip : published) {
    const Machine& machine = *FindMachine(chip.name);
    EXPECT_NEAR(machine.PeakBf16Flops() * chip.devices_a_chip / 1e12, chip.teraflops, 0.01 * chip.teraflops)
        << chip.name;
    EXPECT_NEAR(machine.hbm_gb_per_s * chip.devices_a_chip, chip.gb_per_s, 0.01 * chip.gb_per_s) << chip.name;
  }
}

TEST(Machine, TypesRunAtTheirSpeed) {
  EXPECT_EQ(FindMachine("v5e")->TypeSpeed(PrimitiveType::kS8), 2);
  EXPECT_EQ(FindMachine("v4")->TypeSpeed(PrimitiveType::kS8), 1);
  EXPECT_EQ(FindMachine("tpu7x")->TypeSpeed(PrimitiveType::kF8E4M3FN), 2);
  EXPECT_EQ(FindMachine("v5e")->TypeSpeed(PrimitiveType::kF16), 1);  // not named: converted
  EXPECT_TRUE(FindMachine("v5e")->IsNative(PrimitiveType::kS8, PrimitiveType::kS8));
  EXPECT_FALSE(FindMachine("tpu7x")->IsNative(PrimitiveType::kS8, PrimitiveType::kS8));
  EXPECT_EQ(FindMachine("v6e")->EffectiveArrays(), 4);
  EXPECT_EQ(FindMachine("v5p")->EffectiveArrays(), 8);
}

TEST(Machine, WrittenMachinesReadBackEqual) {
  for (const Machine& machine : KnownMachines()) {
    absl::StatusOr<Machine> read = ReadMachine(WriteMachine(machine));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, machine);
  }
}

TEST(Machine, FieldsReplaceThoseOfTheBase) {
  absl::StatusOr<Machine> half = ReadMachine(
      R"({"base": "v5e", "name": "half", "arrays_per_core": 2, "macs_per_cycle": 32768, "hbm_gb_per_s": 409.5,
          "type_speed": {"s8": 4, "bf16": 1}, "native_inputs": ["s8*s4"]})");
  ASSERT_TRUE(half.ok()) << half.status();
  Machine expected = *FindMachine("v5e");
  expected.name = "half";
  expected.arrays_per_core = 2;
  expected.macs_per_cycle = 32768;
  expected.hbm_gb_per_s = 409.5;
  expected.type_speed = {{PrimitiveType::kS8, 4}, {PrimitiveType::kBF16, 1}};
  expected.native_inputs = {{PrimitiveType::kS8, PrimitiveType::kS4}};
  EXPECT_EQ(*half, expected);

  EXPECT_EQ(ReadMachine(R"({"base": "v6e"})")->name, "v6e");
  EXPECT_EQ(ReadMachine(R"({"base": "v6e", "clock_ghz": 2})")->name, "v6e (changed)");
}

TEST(Machine, ErrorsNameTheField) {
  const struct {
    const char* json;
    const char* message;
  } cases[] = {
      {"{", "machine: not JSON: "},
      {"[]", "machine: the text is not one JSON object"},
      {R"({"base": 5})", "machine: base is not a text"},
      {R"({"base": "v3"})", "machine: base 'v3' is not known; known are v4, v5e, v5p, v6e, tpu7x"},
      {R"({"base": "v5e", "clock": 1})", "machine: unknown field 'clock'"},
      {R"({"base": "v5e", "clock_ghz": "1.5"})", "machine: clock_ghz is not a number"},
      {R"({"base": "v5e", "array_side": 1.5})", "machine: array_side is not a whole number"},
      {R"({"base": "v5e", "clock_ghz": 1500})", "machine: clock_ghz is 1500, expected 0.01 to 20"},
      {R"({"base": "v5e", "hbm_bytes": -1})", "machine: hbm_bytes is -1, expected "},
      {R"({"base": "v5e", "array_side": 100})", "machine: array_side is 100, expected a power of two"},
      {R"({"base": "v5e", "scoped_vmem_bytes": 268435456})", "is more than vmem_bytes 134217728"},
      {R"({"base": "v5e", "type_speed": [1]})", "machine: type_speed is not an object"},
      {R"({"base": "v5e", "type_speed": {"f7": 1}})", "machine: type_speed: 'f7' is no element type"},
      {R"({"base": "v5e", "type_speed": {"s8": 0}})", "machine: type_speed of s8 is 0, expected "},
      {R"({"base": "v5e", "native_inputs": ["s8"]})", "machine: native_inputs: 's8' is not lhs*rhs"},
      {R"({"base": "v5e", "native_inputs": ["s8*token"]})", "machine: native_inputs: 'token' is no element type"},
      {R"({"base": "v5e", "name": ""})", "machine: name is empty"},
      {R"({"name": "mine"})", "machine: field array_side is missing and there is no base"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<Machine> machine = ReadMachine(c.json);
    ASSERT_FALSE(machine.ok()) << c.json;
    EXPECT_EQ(machine.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(machine.status().message(), c.message)) << c.json << ": " << machine.status();
  }
}

// Omits each field in turn: the reader must require all of them.
TEST(Machine, RequiresEveryFieldWithoutABase) {
  const std::string whole = WriteMachine(*FindMachine("v5e"));
  int fields = 0;
  for (size_t at = whole.find("\n  \""); at != std::string::npos; at = whole.find("\n  \"", at + 1)) {
    const size_t end = whole.find('\n', at + 1);
    if (whole[end - 1] != ',') continue;  // type_speed and native_inputs take several lines
    const std::string name = whole.substr(at + 4, whole.find('"', at + 4) - at - 4);
    const absl::StatusOr<Machine> machine = ReadMachine(whole.substr(0, at) + whole.substr(end));
    ASSERT_FALSE(machine.ok()) << name;
    EXPECT_TRUE(absl::StrContains(machine.status().message(), absl::StrCat("field ", name, " is missing")))
        << machine.status();
    ++fields;
  }
  EXPECT_EQ(fields, 35);
}

}  // namespace
}  // namespace backplane::tpu
