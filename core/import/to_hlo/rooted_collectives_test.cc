// Collectives with a root, in the terms of HLO; and the composite of a scaled product.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/import/import.h"
#include "core/text/hlo_printer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<std::string> Hlo(absl::string_view program) {
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
  if (!m.ok()) return m.status();
  HloPrintOptions options;
  options.metadata = false;
  return PrintModule(**m, options);
}

std::string Broadcast(absl::string_view replicas, absl::string_view partitions, absl::string_view groups, int channel,
                      absl::string_view roots = "tensor<1xi32>") {
  return absl::StrCat("module attributes {mhlo.num_partitions = ", partitions, " : i32, mhlo.num_replicas = ", replicas,
                      " : i32} {\nfunc.func @main(%x: tensor<2x3xf32>, %r: ", roots,
                      ") -> tensor<2x3xf32> {\n  %0 = \"stablehlo.collective_broadcast\"(%x, %r) {replica_groups = ",
                      groups, ", channel_handle = #stablehlo.channel_handle<handle = ", channel,
                      ", type = 0>, has_dynamic_root = true} : (tensor<2x3xf32>, ", roots,
                      ") -> tensor<2x3xf32>\n  return %0 : tensor<2x3xf32>\n}\n}\n");
}

std::string Reduce(absl::string_view replicas, absl::string_view partitions, absl::string_view groups, int channel) {
  return absl::StrCat(
      "module attributes {mhlo.num_partitions = ", partitions, " : i32, mhlo.num_replicas = ", replicas,
      " : i32} {\nfunc.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = "
      "\"stablehlo.collective_reduce\"(%x) ({\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    %1 = "
      "stablehlo.add %a, %b : tensor<f32>\n    stablehlo.return %1 : tensor<f32>\n  }) {replica_groups = ",
      groups, ", channel_handle = #stablehlo.channel_handle<handle = ", channel,
      ", type = 0>, has_dynamic_root = false, use_global_device_ids = false} : (tensor<2xf32>) -> "
      "tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n}\n");
}

TEST(RootedCollectives, BroadcastBetweenReplicasKeepsTheRootsPart) {
  absl::StatusOr<std::string> hlo = Hlo(Broadcast("4", "1", "dense<[[0, 2], [3, 1]]> : tensor<2x2xi64>", 0));
  ASSERT_TRUE(hlo.ok()) << hlo.status();
  EXPECT_THAT(*hlo, AllOf(HasSubstr("f32[2,2,3] all-gather("), HasSubstr("replica_groups={{0,2},{3,1}}"),
                          HasSubstr("dynamic_slice_sizes={1,2,3}"), Not(HasSubstr("use_global_device_ids=true"))));
}

TEST(RootedCollectives, BroadcastBetweenPartitionsMeetsWithinEachReplica) {
  absl::StatusOr<std::string> hlo = Hlo(Broadcast("2", "2", "dense<[[1, 0]]> : tensor<1x2xi64>", 1));
  ASSERT_TRUE(hlo.ok()) << hlo.status();
  EXPECT_THAT(*hlo, AllOf(HasSubstr("replica_groups={{1,0},{3,2}}"), HasSubstr("use_global_device_ids=true")));
}

TEST(RootedCollectives, ReduceLeavesZerosElsewhere) {
  absl::StatusOr<std::string> hlo = Hlo(Reduce("1", "2", "dense<[[1, 0]]> : tensor<1x2xi64>", 1));
  ASSERT_TRUE(hlo.ok()) << hlo.status();
  EXPECT_THAT(*hlo, AllOf(HasSubstr("all-reduce("), HasSubstr("partition-id()"), HasSubstr("constant({1, 0})"),
                          HasSubstr("select(")));
}

TEST(RootedCollectives, Errors) {
  auto error = [](const std::string& program) { return std::string(Hlo(program).status().message()); };
  EXPECT_THAT(error(Broadcast("4", "1", "dense<[[0, 2]]> : tensor<1x2xi64>", 0)), HasSubstr("in no group"));
  EXPECT_THAT(error(Broadcast("2", "1", "dense<[[0, 2]]> : tensor<1x2xi64>", 0)), HasSubstr("names process 2 of 2"));
  EXPECT_THAT(error(Broadcast("2", "1", "dense<[[0, 1]]> : tensor<1x2xi64>", 0, "tensor<2xi32>")),
              HasSubstr("[collective_broadcast_c4]"));
  EXPECT_THAT(error(Broadcast("1048576", "1048576", "dense<> : tensor<0x0xi64>", 1)),
              HasSubstr("1048576 replicas of 1048576 partitions"));
  EXPECT_THAT(error(Reduce("2", "1048576", "dense<> : tensor<0x0xi64>", 1)),
              HasSubstr("2 replicas of 1048576 partitions"));
}

std::string ScaledDot(absl::string_view attributes) {
  return absl::StrCat(
      "func.func @main(%a: tensor<4x64xf8E4M3FN>, %b: tensor<8x64xf8E4M3FN>, %s: tensor<4x2xf8E8M0FNU>, %t: "
      "tensor<8x2xf8E8M0FNU>) -> tensor<4x8xf32> {\n  %0 = stablehlo.composite \"xla.scaled_dot\" %a, %b, %s, %t "
      "{composite_attributes = {",
      attributes,
      "}, decomposition = @d} : (tensor<4x64xf8E4M3FN>, tensor<8x64xf8E4M3FN>, tensor<4x2xf8E8M0FNU>, "
      "tensor<8x2xf8E8M0FNU>) -> tensor<4x8xf32>\n  return %0 : tensor<4x8xf32>\n}\n"
      "func.func private @d(%a: tensor<4x64xf8E4M3FN>, %b: tensor<8x64xf8E4M3FN>, %s: tensor<4x2xf8E8M0FNU>, %t: "
      "tensor<8x2xf8E8M0FNU>) -> tensor<4x8xf32> {\n  %z = stablehlo.constant dense<0.0> : tensor<4x8xf32>\n  return "
      "%z : "
      "tensor<4x8xf32>\n}\n");
}

TEST(Composites, ScaledDotIsOneOperation) {
  absl::StatusOr<std::string> hlo =
      Hlo(ScaledDot("dimension_numbers = [[[1], [1]], [[], []]], preferred_element_type = f32"));
  ASSERT_TRUE(hlo.ok()) << hlo.status();
  EXPECT_THAT(*hlo, AllOf(HasSubstr("f32[4,8] scaled-dot("), HasSubstr("lhs_contracting_dims={1}")));
  // What is written another way is what its decomposition says.
  hlo = Hlo(ScaledDot("dimension_numbers = \"ij,kj\""));
  ASSERT_TRUE(hlo.ok()) << hlo.status();
  EXPECT_THAT(*hlo, AllOf(HasSubstr("is_composite=true"), Not(HasSubstr("scaled-dot("))));
}

}  // namespace
}  // namespace backplane
