#include "sdk/backend/executable_signature.h"

#include "core/import/proto/sharding_proto.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Module> Parse(const std::string& text) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

ExecutableSignature Describe(const Module& module, LayoutSource layouts = LayoutSource::kConfig) {
  absl::StatusOr<ExecutableSignature> signature = DescribeEntry(module, layouts);
  EXPECT_TRUE(signature.ok()) << signature.status();
  return signature.ok() ? *std::move(signature) : ExecutableSignature();
}

std::vector<bool> Donated(const ExecutableSignature& signature) {
  std::vector<bool> donated;
  for (const ParameterInfo& p : signature.parameters) donated.push_back(p.donated);
  return donated;
}

std::vector<int32_t> Aliases(const ExecutableSignature& signature) {
  std::vector<int32_t> aliases;
  for (const OutputInfo& output : signature.outputs) aliases.push_back(output.alias);
  return aliases;
}

constexpr char kEntry[] = R"(

ENTRY e {
  t = (f32[4], f32[8]) parameter(0)
  u = (f32[4], f32[8]) parameter(1), metadata={op_name="params['w']"}
  a = f32[4] get-tuple-element(t), index=0
  b = f32[8] get-tuple-element(u), index=1
  c = f32[4] add(a, a)
  d = f32[8] add(b, b)
  ROOT r = (f32[8], f32[4]) tuple(d, c)
}
)";

// The second leaf of the second parameter is the fourth argument.
TEST(ExecutableSignatureTest, AliasesNameLeaves) {
  auto module = Parse(absl::StrCat("HloModule m, input_output_alias={ {0}: (1, {1}, may-alias) }", kEntry));
  ASSERT_NE(module, nullptr);
  module->config().num_replicas = 2;
  module->config().num_partitions = 3;
  const ExecutableSignature signature = Describe(*module);
  EXPECT_THAT(Donated(signature), ElementsAre(false, false, false, true));
  EXPECT_THAT(Aliases(signature), ElementsAre(3, -1));
  EXPECT_EQ(signature.device_count(), 6);
  EXPECT_EQ(signature.parameters[1].name, "");
  EXPECT_EQ(signature.parameters[2].name, "params['w']");
  EXPECT_EQ(signature.parameters[3].name, "params['w']");
  EXPECT_EQ(signature.outputs[0].shape.ToString(true), "f32[8]{0}");
}

TEST(ExecutableSignatureTest, ALeafIsGivenAwayOnce) {
  auto module = Parse(absl::StrCat("HloModule m", kEntry));
  ASSERT_NE(module, nullptr);
  module->config().input_output_aliases = {{{0}, 1, {1}, false}, {{1}, 1, {1}, false}, {{0}, 0, {1}, false}};
  const ExecutableSignature signature = Describe(*module);
  EXPECT_THAT(Aliases(signature), ElementsAre(3, -1));
  EXPECT_THAT(Donated(signature), ElementsAre(false, true, false, true));
}

TEST(ExecutableSignatureTest, AnAliasOfNoLeafIsAnError) {
  auto module = Parse(absl::StrCat("HloModule m", kEntry));
  ASSERT_NE(module, nullptr);
  module->config().input_output_aliases = {{{0}, 1, {}, false}};
  EXPECT_EQ(DescribeEntry(*module, LayoutSource::kConfig).status().message(),
            "m: donates a leaf of parameter 1, which does not exist");
}

TEST(ExecutableSignatureTest, DonorsServeTheFirstOutputLikeThem) {
  auto module = Parse(absl::StrCat("HloModule m, buffer_donor={ (0, {0}), (0, {1}), (1, {1}) }", kEntry));
  ASSERT_NE(module, nullptr);
  ExecutableSignature signature = Describe(*module);
  EXPECT_THAT(Donated(signature), ElementsAre(false, false, false, false));
  ASSERT_TRUE(AliasDonors(*module, &signature).ok());
  EXPECT_THAT(Aliases(signature), ElementsAre(1, 0));
  EXPECT_THAT(Donated(signature), ElementsAre(true, true, false, false));
  module->config().buffer_donors = {{1, {2}}};
  EXPECT_FALSE(AliasDonors(*module, &signature).ok());
}

TEST(ExecutableSignatureTest, SetAliasesReplacesThem) {
  auto module = Parse(absl::StrCat("HloModule m, input_output_alias={ {0}: (1, {1}, may-alias) }", kEntry));
  ASSERT_NE(module, nullptr);
  ExecutableSignature signature = Describe(*module);
  signature.SetAliases({1, 0});
  EXPECT_THAT(Aliases(signature), ElementsAre(1, 0));
  EXPECT_THAT(Donated(signature), ElementsAre(true, true, false, true));  // an alias of the program stays donated
}

TEST(ExecutableSignatureTest, LayoutsAndMemoryKinds) {
  auto module = Parse(R"(HloModule m

ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  y = f32[2,3] parameter(1)
  ROOT r = (f32[2,3]{0,1}, f32[2,3]) tuple(x, y)
}
)");
  ASSERT_NE(module, nullptr);
  Shape column(PrimitiveType::kF32, {2, 3});
  column.set_layout(Layout::RowMajor(2));
  column.mutable_layout().minor_to_major = {0, 1};
  module->config().parameter_layouts = {Shape(PrimitiveType::kF32, {2, 3}), column};
  module->config().parameter_memory_kinds = {"", "pinned_host"};
  module->config().result_memory_kinds = {"pinned_host"};
  const ExecutableSignature asked = Describe(*module, LayoutSource::kConfig);
  EXPECT_EQ(asked.parameters[0].shape.ToString(true), "f32[2,3]{1,0}");
  EXPECT_EQ(asked.parameters[1].shape.ToString(true), "f32[2,3]{0,1}");
  EXPECT_EQ(asked.outputs[0].shape.ToString(true), "f32[2,3]{1,0}");
  const ExecutableSignature own = Describe(*module, LayoutSource::kEntry);
  EXPECT_EQ(own.parameters[0].shape.ToString(true), "f32[2,3]{0,1}");
  EXPECT_EQ(own.parameters[1].shape.ToString(true), "f32[2,3]{1,0}");
  EXPECT_EQ(own.outputs[0].shape.ToString(true), "f32[2,3]{0,1}");
  EXPECT_EQ(own.parameters[0].memory_kind, "device");
  EXPECT_EQ(own.parameters[1].memory_kind, "pinned_host");
  EXPECT_EQ(own.outputs[0].memory_kind, "pinned_host");
  EXPECT_EQ(own.outputs[1].memory_kind, "device");
}

TEST(ExecutableSignatureTest, Shardings) {
  auto module = Parse(R"(HloModule m

ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  y = f32[4] parameter(1)
  ROOT r = f32[4] add(x, y)
}
)");
  ASSERT_NE(module, nullptr);
  const std::string split = SerializeSharding(*ParseSharding("{devices=[2]<=[2]}"));
  const std::string replicated = SerializeSharding(Sharding());
  ExecutableSignature signature = Describe(*module);
  EXPECT_EQ(signature.parameters[0].sharding, split);
  EXPECT_EQ(signature.parameters[1].sharding, std::nullopt);
  EXPECT_EQ(signature.outputs[0].sharding, std::nullopt);
  // What the partitioner left counts before what instructions say.
  module->config().frontend_attributes["spmd_result_shardings"] = "{{devices=[2]<=[2]}}";
  signature = Describe(*module);
  EXPECT_EQ(signature.parameters[0].sharding, std::nullopt);
  EXPECT_EQ(signature.outputs[0].sharding, split);
  module->config().frontend_attributes["spmd_parameter_shardings"] = "{{replicated}, {devices=[2]<=[2]}}";
  signature = Describe(*module);
  EXPECT_EQ(signature.parameters[0].sharding, replicated);
  EXPECT_EQ(signature.parameters[1].sharding, split);
}

}  // namespace
}  // namespace backplane
