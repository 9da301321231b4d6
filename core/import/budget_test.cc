// Short programs whose instructions would fill the memory, and large programs that must work.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/import.h"
#include "core/import/to_hlo/shardy_sharding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::HasSubstr;

// A function of one array, x0, with `count` operations. op(i) is the text of one that makes x<i + 1> of x<i>.
template <typename Fn>
std::string Chain(int count, absl::string_view type, Fn op) {
  std::string text = absl::StrCat("func.func public @main(%x0: ", type, ") -> ", type, " {\n");
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, op(i), "\n");
  return absl::StrCat(text, "return %x", count, " : ", type, "\n}\n");
}

std::string Unary(int i, absl::string_view op, absl::string_view attributes = "") {
  return absl::StrCat("%x", i + 1, " = \"", op, "\"(%x", i, ") {", attributes, "} : (tensor<4xf32>) -> tensor<4xf32>");
}

std::unique_ptr<Module> Import(absl::string_view program) {
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
  EXPECT_TRUE(m.ok()) << std::string(m.status().message()).substr(0, 2000);
  return m.ok() ? *std::move(m) : nullptr;
}

void ExpectTooLarge(absl::string_view program) {
  const absl::Status s = ImportProgram("mlir", program).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(s.message()), HasSubstr("[expansion_budget]"));
}

// Numbers 0 to count - 1 in an order that is no iota.
Ints Shuffled(int64_t count) {
  Ints ids(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) ids[static_cast<size_t>(i)] = (i * 5 + 3) % count;
  return ids;
}

std::string Groups(const Ints& ids, size_t group_size) {
  std::string text = "dense<[";
  for (size_t i = 0; i < ids.size(); i += group_size) {
    absl::StrAppend(
        &text, i ? "," : "", "[",
        absl::StrJoin(ids.begin() + static_cast<int64_t>(i), ids.begin() + static_cast<int64_t>(i + group_size), ","),
        "]");
  }
  return absl::StrCat(text, "]> : tensor<", ids.size() / group_size, "x", group_size, "xi64>");
}

TEST(ExpansionBudget, SharedTextsAreBounded) {
  const std::string text = absl::StrCat("#text = \"", std::string(1000000, 't'), "\"\n");
  ExpectTooLarge(text + Chain(1200, "tensor<4xf32>", [](int i) {
                   return Unary(i, "stablehlo.custom_call", "call_target_name = \"f\", backend_config = #text");
                 }));
  ExpectTooLarge(text + Chain(1200, "tensor<4xf32>",
                              [](int i) { return Unary(i, "stablehlo.custom_call", "call_target_name = #text"); }));
  ExpectTooLarge(text + Chain(1200, "tensor<4xf32>", [](int i) {
                   return Unary(i, "stablehlo.sine", "mhlo.frontend_attributes = {a = #text}");
                 }));
}

TEST(ExpansionBudget, SharedTupleTypesAreBounded) {
  std::string type = "!t = tuple<tensor<f32>";
  for (int i = 1; i < 10000; ++i) type += ",tensor<f32>";
  type += ">\n";
  ExpectTooLarge(type + Chain(1200, "tensor<4xf32>", [](int i) {
                   return absl::StrCat("%t", i, " = \"stablehlo.custom_call\"(%x", i,
                                       ") {call_target_name = \"f\"} : (tensor<4xf32>) -> !t\n",
                                       Unary(i, "stablehlo.sine"));
                 }));
}

TEST(ExpansionBudget, SharedListsOfDevicesAreBounded) {
  const std::string list = absl::StrCat("#list = ", Groups(Shuffled(4096), 2), "\n");
  ExpectTooLarge(list + Chain(40000, "tensor<4xf32>", [](int i) {
                   return Unary(i, "stablehlo.collective_permute",
                                "source_target_pairs = #list, channel_handle = #stablehlo.channel_handle<handle = 1, "
                                "type = 1>");
                 }));
  // One operation becomes an instruction for each operand.
  std::string operands = "%x0", types = "tensor<4xf32>";
  for (int i = 1; i < 5000; ++i) operands += ",%x0", types += ",tensor<4xf32>";
  const std::string long_list = absl::StrCat("#list = ", Groups(Shuffled(16384), 2), "\n");
  ExpectTooLarge(absl::StrCat(long_list,
                              "func.func public @main(%x0: tensor<4xf32>) -> tensor<4xf32> {\n%r:5000 = "
                              "\"stablehlo.all_to_all\"(",
                              operands,
                              ") {split_dimension = 0 : i64, concat_dimension = 0 : "
                              "i64, split_count = 2 : i64, replica_groups = #list} : (",
                              types, ") -> (", types, ")\nreturn %r#0 : tensor<4xf32>\n}\n"));
  std::string aliases = "#aliases = [";
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&aliases, i ? "," : "",
                    "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, "
                    "operand_tuple_indices = []>");
  }
  ExpectTooLarge(aliases + "]\n" + Chain(12000, "tensor<4xf32>", [](int i) {
                   return Unary(i, "stablehlo.custom_call",
                                "call_target_name = \"f\", output_operand_aliases = #aliases");
                 }));
}

TEST(ExpansionBudget, InstructionsShareConstantsAndShardings) {
  const Ints numbers = Shuffled(100000);
  std::string program = absl::StrCat("#c = dense<[", absl::StrJoin(numbers, ","), "]> : tensor<100000xi32>\n",
                                     "#s = \"{devices=[4096]", absl::StrJoin(Shuffled(4096), ","), "}\"\n",
                                     "module attributes {mhlo.num_partitions = 4096 : i32} {\n");
  program += Chain(1000, "tensor<100000xi32>", [](int i) {
    return absl::StrCat("%c", i, " = stablehlo.constant #c\n%x", i + 1, " = stablehlo.add %x", i, ", %c", i,
                        " {mhlo.sharding = #s} : tensor<100000xi32>");
  });
  std::unique_ptr<Module> m = Import(program + "}\n");
  ASSERT_NE(m, nullptr);
  const Instruction *last = m->entry()->root(), *before = last->operand(0);
  EXPECT_EQ(&last->operand(1)->literal(), &before->operand(1)->literal());
  EXPECT_EQ(last->sharding(), before->sharding());
}

// As in programs for large machines: the groups are listed, but they have an iota form.
TEST(ExpansionBudget, GroupsOfLargeMeshesWork) {
  Ints ids(16384);
  for (int64_t i = 0; i < 16384; ++i) ids[static_cast<size_t>(i)] = i % 16 * 1024 + i / 16;
  std::unique_ptr<Module> m = Import(absl::StrCat(
      "#list = ", Groups(ids, 16), "\n", Chain(3000, "tensor<4xf32>", [](int i) {
        return absl::StrCat(
            "%x", i + 1, " = \"stablehlo.all_reduce\"(%x", i,
            ") ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%s = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return "
            "%s : tensor<f32>\n}) {replica_groups = #list} : (tensor<4xf32>) -> tensor<4xf32>");
      })));
  ASSERT_NE(m, nullptr);
  const auto& groups = m->entry()->root()->attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups);
  EXPECT_EQ(groups.iota, (IotaDevices{{1024, 16}, {16, 1024}, {1, 0}}));
  EXPECT_EQ(groups.Expand()[3][2], 2 * 1024 + 3);
}

TEST(ExpansionBudget, LoopsOverThousandsOfArraysWork) {
  std::string types, values, initial;
  for (int i = 0; i < 10000; ++i) {
    const char* comma = i ? "," : "";
    absl::StrAppend(&types, comma, "tensor<f32>");
    absl::StrAppend(&values, comma, "%v", i);
    absl::StrAppend(&initial, comma, "%v", i, " = %x0");
  }
  std::string program = "func.func public @main(%x0: tensor<f32>) -> tensor<f32> {\n";
  for (int k = 0; k < 6; ++k) {
    absl::StrAppend(&program, "%w", k, ":10000 = stablehlo.while(", initial, ") : ", types,
                    " cond {\n%p = stablehlo.compare LT, %v0, %v1 : (tensor<f32>, tensor<f32>) -> "
                    "tensor<i1>\nstablehlo.return %p : tensor<i1>\n} do {\nstablehlo.return ",
                    values, " : ", types, "\n}\n");
  }
  EXPECT_NE(Import(program + "return %w5#0 : tensor<f32>\n}\n"), nullptr);
}

// All axes of a mesh in any order, or parts of them, against the meaning of the text.
TEST(ShardySharding, SubAxesOfLargeMeshesAreIotas) {
  using to_hlo::ConvertShardySharding;
  const to_hlo::MeshTexts meshes = {{"m", "#sdy.mesh<[\"a\"=8, \"b\"=3, \"c\"=16]>"},
                                    {"small", "#sdy.mesh<[\"a\"=8, \"b\"=2]>"},
                                    {"huge", "#sdy.mesh<[\"a\"=1048576]>"}};
  struct Part {
    int64_t size, stride;
  };
  struct Case {
    std::string text;
    std::vector<Part> tiles;  // the mixed radix digits of the tile of a device
  };
  for (const Case& c : std::vector<Case>{{"<@m, [{\"a\":(2)2}]>", {{2, 96}}},
                                         {"<@m, [{\"c\":(1)4, \"a\"}, {\"b\"}]>", {{4, 4}, {8, 48}, {3, 16}}},
                                         {"<@m, [{\"c\":(4)2, \"c\":(1)2}, {\"a\":(4)2}]>", {{2, 2}, {2, 8}, {2, 48}}},
                                         {"<@small, [{\"a\":(2)2}]>", {{2, 4}}}}) {
    auto s = ConvertShardySharding(c.text, meshes, c.tiles.size() > 1 ? 2 : 1);
    ASSERT_TRUE(s.ok()) << s.status();
    const bool small = absl::StrContains(c.text, "small");
    EXPECT_EQ(s->sharding.iota.has_value(), !small) << c.text;
    std::vector<std::pair<int64_t, int64_t>> order;
    for (int64_t d = 0; d < (small ? 16 : 384); ++d) {
      int64_t tile = 0;
      for (const Part& p : c.tiles) tile = tile * p.size + d / p.stride % p.size;
      order.emplace_back(tile, d);
    }
    std::sort(order.begin(), order.end());
    Ints expected;
    for (const auto& [tile, device] : order) expected.push_back(device);
    EXPECT_EQ(s->sharding.DeviceList(), expected) << c.text;
  }
  auto s = ConvertShardySharding("<@huge, [{\"a\":(2)2}]>", meshes, 1);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->sharding.iota, (IotaDevices{{2, 524288}, {2, 2, 262144}, {1, 0, 2}}));
  EXPECT_FALSE(ConvertShardySharding("<@m, [{\"a\"}, {\"a\":(2)2}]>", meshes, 2).ok());
  EXPECT_FALSE(ConvertShardySharding("<@m, [{\"a\":(1)4}, {\"a\":(2)2}]>", meshes, 2).ok());
}

}  // namespace
}  // namespace backplane
