// From StableHLO to HLO: what the modules look like, and, where looks deceive, what they compute.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "core/import/proto/hlo_proto.h"
#include "core/text/hlo_parser.h"
#include "core/text/hlo_printer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::filesystem::path DataDir() {
  return std::filesystem::path(BACKPLANE_SOURCE_DIR) / "core/import/stablehlo/testdata";
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string Print(const Module& module) {
  HloPrintOptions options;
  options.metadata = false;
  return PrintModule(module, options);
}

std::unique_ptr<Module> Import(absl::string_view program) {
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
  EXPECT_TRUE(m.ok()) << m.status() << "\n" << program.substr(0, 2000);
  return m.ok() ? *std::move(m) : nullptr;
}

std::string Hlo(absl::string_view program) {
  std::unique_ptr<Module> m = Import(program);
  return m ? Print(*m) : "";
}

std::string ErrorOf(absl::string_view program, absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
  EXPECT_FALSE(m.ok());
  if (m.ok()) return "";
  EXPECT_EQ(m.status().code(), code) << m.status();
  return std::string(m.status().message());
}

// @main(args) { body } in a module of its own.
std::string Main(absl::string_view arguments, absl::string_view result, absl::string_view body) {
  return absl::StrCat("func.func public @main(", arguments, ") -> ", result, " {\n", body, "\n}\n");
}

// The value of a program without arguments.
Literal Eval(absl::string_view program, std::vector<Literal> arguments = {}) {
  std::unique_ptr<Module> m = Import(program);
  if (!m) return Literal();
  absl::StatusOr<Literal> r = Evaluate(*m, arguments);
  EXPECT_TRUE(r.ok()) << r.status() << "\n" << Print(*m);
  return r.ok() ? *std::move(r) : Literal();
}

TEST(Import, EveryFormOfAProgramBecomesOneModule) {
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DataDir())) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(".1.17.0.bc")) continue;
    SCOPED_TRACE(name);
    std::string stem = name.substr(0, name.find('.'));
    std::string hlo = Hlo(ReadFile(entry.path()));
    EXPECT_THAT(hlo, HasSubstr("ENTRY %main"));
    EXPECT_EQ(Hlo(ReadFile(DataDir() / (stem + ".pretty.mlir"))), hlo);
    EXPECT_EQ(Hlo(ReadFile(DataDir() / (stem + ".generic.mlir"))), hlo);
    ++programs;
  }
  EXPECT_GE(programs, 35);
}

TEST(Import, EveryReleasedVersionBecomesTheSameModule) {
  std::vector<std::string> versions;
  for (int minor = 9; minor <= 20; ++minor) versions.push_back(absl::StrCat("0.", minor, ".0"));
  for (int minor = 0; minor <= 17; ++minor) versions.push_back(absl::StrCat("1.", minor, ".0"));
  for (const char* name : {"add", "dot", "gather", "reduce_scatter_sort"}) {
    std::string hlo = Hlo(ReadFile(DataDir() / absl::StrCat(name, ".1.17.0.bc")));
    EXPECT_THAT(hlo, HasSubstr("ENTRY"));
    for (const std::string& version : versions) {
      EXPECT_EQ(Hlo(ReadFile(DataDir() / absl::StrCat(name, ".", version, ".bc"))), hlo) << name << " " << version;
    }
  }
}

TEST(Import, AddInFull) {
  EXPECT_EQ(Hlo(R"(
module @jit_f {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
})"),
            R"(HloModule jit_f

ENTRY %main (Arg_0: f32[2,3], Arg_1: f32[3]) -> f32[2,3] {
  %Arg_0 = f32[2,3] parameter(0)
  %Arg_1 = f32[3] parameter(1)
  %broadcast = f32[2,3] broadcast(%Arg_1), dimensions={1}
  ROOT %add = f32[2,3] add(%Arg_0, %broadcast)
}

)");
}

TEST(Import, LocationsBecomeMetadata) {
  std::unique_ptr<Module> m =
      Import(Main("%a: tensor<2xf32>", "tensor<2xf32>",
                  "%0 = stablehlo.sine %a : tensor<2xf32> loc(\"jit(f)/sin\"(\"model.py\":12:3))\n"
                  "return %0 : tensor<2xf32>"));
  ASSERT_NE(m, nullptr);
  const OpMetadata& data = m->entry()->root()->metadata();
  EXPECT_EQ(data.op_name, "jit(f)/sin");
  EXPECT_EQ(data.source_file, "model.py");
  EXPECT_EQ(data.source_line, 12);
}

TEST(Import, ArgumentsAreNamedAsTheProgramCallsThem) {
  std::unique_ptr<Module> m = Import(
      Main("%a: tensor<2xf32> loc(\"params['w']\"), %b: tensor<2xf32> {tf.aliasing_output = 0 : i32} loc(#x), "
           "%c: tensor<2xf32> loc(\"state[0].mu\"(\"model.py\":3:4)), %d: tensor<2xf32> loc(\"model.py\":9:1), "
           "%e: tensor<2xf32> loc(unknown), %f: tensor<2xf32> loc(\"9\"), %g: tensor<2xf32> loc(\"params['w']\")",
           "tensor<2xf32>", "return %b : tensor<2xf32>") +
      "#x = loc(\"x\")\n");
  ASSERT_NE(m, nullptr);
  struct {
    const char *op_name, *file, *name;
  } expected[] = {
      {"params['w']", "", "params__w__"},
      {"x", "", "x"},
      {"state[0].mu", "model.py", "state_0_.mu"},
      {"", "model.py", "Arg_3"},
      {"", "", "Arg_4"},
      {"9", "", "_9"},
      {"params['w']", "", "params__w__.1"},
  };
  ASSERT_EQ(m->entry()->parameters().size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    const Instruction* parameter = m->entry()->parameter(static_cast<int64_t>(i));
    EXPECT_EQ(parameter->metadata().op_name, expected[i].op_name) << i;
    EXPECT_EQ(parameter->metadata().source_file, expected[i].file) << i;
    EXPECT_EQ(parameter->name(), expected[i].name) << i;
  }
  // What JAX lowered, as text and as it is sent to a plugin.
  for (const char* form : {"donate.pretty.mlir", "donate.generic.mlir", "donate.1.17.0.bc"}) {
    SCOPED_TRACE(form);
    m = Import(ReadFile(DataDir() / form));
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->entry()->parameter(0)->metadata().op_name, "a");
    EXPECT_EQ(m->entry()->parameter(1)->metadata().op_name, "b");
    EXPECT_THAT(m->ToString(), HasSubstr("%b = f32[4,8] parameter(1), metadata={op_name=\"b\"}"));
  }
}

TEST(Import, AnyNameOfAnArgumentSurvivesText) {
  for (const char* name : {"f32", "add", "ROOT", "ENTRY", "true", "x.7", "-x", "parameter", "s4", "inf", "\xc3\xa4"}) {
    std::unique_ptr<Module> m = Import(Main(absl::StrCat("%a: tensor<2xf32> loc(\"", name, "\")"), "tensor<2xf32>",
                                            "%0 = stablehlo.add %a, %a : tensor<2xf32>\nreturn %0 : tensor<2xf32>"));
    ASSERT_NE(m, nullptr);
    const std::string text = m->ToString();
    absl::StatusOr<std::unique_ptr<Module>> again = ParseHloModule(text);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ((*again)->ToString(), text);
    EXPECT_EQ((*again)->entry()->parameter(0)->metadata().op_name, name);
  }
}

TEST(Import, AnyNameOfAModuleOrAFunctionSurvivesText) {
  for (const char* name : {"a b$c", "1g-", "-x", ".", "%x", "f {", "\xc3\xa4", "ENTRY", "f32", "true"}) {
    std::unique_ptr<Module> m = Import(absl::StrCat(
        "module @\"", name, "\" {\nfunc.func public @main(%a: tensor<2xf32>) -> ", "tensor<2xf32> {\n%0 = call @\"",
        name, "_\"(%a) : (tensor<2xf32>) -> ", "tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}\nfunc.func private @\"",
        name, "_\"(%a: tensor<2xf32>) -> tensor<2xf32> {\n%0 = stablehlo.add ",
        "%a, %a : tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}\n}"));
    ASSERT_NE(m, nullptr);
    const std::string text = m->ToString();
    absl::StatusOr<std::unique_ptr<Module>> again = ParseHloModule(text);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ((*again)->ToString(), text);
  }
}

TEST(Import, DonationLayoutsAndMemoryKinds) {
  std::unique_ptr<Module> m =
      Import(Main("%a: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}, %b: tensor<2x3xf32> {jax.buffer_donor = true, "
                  "mhlo.layout_mode = \"{0,1}\", mhlo.memory_kind = \"pinned_host\"}",
                  "(tensor<2x3xf32>, tensor<2x3xf32> {mhlo.memory_kind = \"device\", mhlo.layout_mode = \"default\"})",
                  "return %b, %a : tensor<2x3xf32>, tensor<2x3xf32>"));
  ASSERT_NE(m, nullptr);
  const ModuleConfig& c = m->config();
  ASSERT_EQ(c.input_output_aliases.size(), 1u);
  EXPECT_EQ(c.input_output_aliases[0].output_index, Ints({1}));
  EXPECT_EQ(c.input_output_aliases[0].parameter, 0);
  ASSERT_EQ(c.buffer_donors.size(), 1u);
  EXPECT_EQ(c.buffer_donors[0].parameter, 1);
  ASSERT_EQ(c.parameter_layouts.size(), 2u);
  EXPECT_FALSE(c.parameter_layouts[0].has_layout());
  EXPECT_EQ(c.parameter_layouts[1].ToString(true), "f32[2,3]{0,1}");
  EXPECT_EQ(c.parameter_memory_kinds, std::vector<std::string>({"", "pinned_host"}));
  EXPECT_EQ(c.result_memory_kinds, std::vector<std::string>({"", "device"}));
  EXPECT_EQ(c.result_layout.element_type(), PrimitiveType::kInvalid);
}

TEST(Import, DonationToASingleResultHasNoIndex) {
  std::unique_ptr<Module> m =
      Import(Main("%a: tensor<f32> {tf.aliasing_output = 0 : i32}", "tensor<f32>", "return %a : tensor<f32>"));
  ASSERT_NE(m, nullptr);
  EXPECT_TRUE(m->config().input_output_aliases[0].output_index.empty());
  EXPECT_THAT(ErrorOf(Main("%a: tensor<f32> {tf.aliasing_output = 3 : i32}", "tensor<f32>", "return %a : tensor<f32>")),
              HasSubstr("argument 0 is aliased with result 3 of 1"));
}

TEST(Import, WhileTakesOutsideValuesAlong) {
  // x * 2^3 + captured: three turns, with a captured argument and a captured constant.
  std::string program = Main("%a: tensor<f32>, %b: tensor<f32>", "(tensor<i32>, tensor<f32>)", R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.add %x, %b : tensor<f32>
      stablehlo.return %n, %y : tensor<i32>, tensor<f32>
    }
    return %0#0, %0#1 : tensor<i32>, tensor<f32>)");
  EXPECT_THAT(Hlo(program), HasSubstr("(s32[], f32[], f32[]) while("));
  Literal r = Eval(program, {Literal::Scalar(PrimitiveType::kF32, 1), Literal::Scalar(PrimitiveType::kF32, 10)});
  ASSERT_TRUE(r.shape().IsTuple());
  EXPECT_EQ(r.elements()[0].GetAsInt(0), 3);
  EXPECT_EQ(r.elements()[1].GetAsDouble(0), 31);
}

TEST(Import, BranchesTakeOnlyWhatTheyNeed) {
  std::string program =
      Main("%p: tensor<i1>, %i: tensor<i32>, %a: tensor<f32>, %b: tensor<f32>", "(tensor<f32>, tensor<f32>)", R"(
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %a : tensor<f32>
    }, {
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    %1 = "stablehlo.case"(%i) ({
      stablehlo.return %a : tensor<f32>
    }, {
      stablehlo.return %b : tensor<f32>
    }, {
      %c = stablehlo.constant dense<7.0> : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>)");
  auto run = [&](bool p, int i) {
    Literal r = Eval(program, {Literal::ScalarInt(PrimitiveType::kPred, p), Literal::ScalarInt(PrimitiveType::kS32, i),
                               Literal::Scalar(PrimitiveType::kF32, 1), Literal::Scalar(PrimitiveType::kF32, 2)});
    return std::pair(r.elements()[0].GetAsDouble(0), r.elements()[1].GetAsDouble(0));
  };
  EXPECT_EQ(run(true, 0), std::pair(1.0, 1.0));
  EXPECT_EQ(run(false, 1), std::pair(3.0, 2.0));
  EXPECT_EQ(run(true, 2), std::pair(1.0, 7.0));
  EXPECT_EQ(run(true, 9), std::pair(1.0, 7.0));  // out of range: the last branch
}

TEST(Import, ReductionBodiesAreShared) {
  std::string hlo = Hlo(Main("%a: tensor<2x3xf32>", "(tensor<3xf32>, tensor<2xf32>)", R"(
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    %1 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %0, %1 : tensor<3xf32>, tensor<2xf32>)"));
  EXPECT_EQ(hlo.find("add(%x, %y)"), hlo.rfind("add(%x, %y)")) << hlo;
  EXPECT_THAT(hlo, HasSubstr("reduce(%Arg_0, %constant), dimensions={1}, to_apply=%add_f32"));
}

TEST(Import, ReductionMayUseOutsideConstantsOnly) {
  constexpr absl::string_view kBody = R"(
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
     reducer(%x: tensor<f32>, %y: tensor<f32>) {
      %t = stablehlo.multiply %y, CAPTURED : tensor<f32>
      %s = stablehlo.add %x, %t : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }
    return %0 : tensor<f32>)";
  auto with = [&](absl::string_view name) {
    std::string body(kBody);
    body.replace(body.find("CAPTURED"), 8, std::string(name));
    return Main("%a: tensor<3xf32>, %b: tensor<f32>", "tensor<f32>", body);
  };
  Literal ones = Literal::FromValues<float>({3}, {1, 1, 1});
  EXPECT_NE(Hlo(with("%two")), "");
  EXPECT_THAT(ErrorOf(with("%b"), absl::StatusCode::kUnimplemented), HasSubstr("uses a value from outside"));
}

TEST(Import, SplatsAreScalarsBroadcast) {
  std::string hlo = Hlo(
      Main("", "tensor<1048576x1048576xi8>",
           "%0 = stablehlo.constant dense<3> : tensor<1048576x1048576xi8>\nreturn %0 : tensor<1048576x1048576xi8>"));
  EXPECT_THAT(hlo, HasSubstr("s8[] constant(3)"));
  EXPECT_THAT(hlo, HasSubstr("broadcast("));
}

TEST(Import, NarrowIntegersKeepTheirSign) {
  Literal r = Eval(Main("", "tensor<3xi32>", R"(
    %0 = stablehlo.constant dense<[-1, 7, -8]> : tensor<3xi4>
    %1 = stablehlo.convert %0 : (tensor<3xi4>) -> tensor<3xi32>
    return %1 : tensor<3xi32>)"));
  EXPECT_EQ(r.GetAsInt(0), -1);
  EXPECT_EQ(r.GetAsInt(1), 7);
  EXPECT_EQ(r.GetAsInt(2), -8);
}

TEST(Import, LapackCallIsTyped) {
  std::unique_ptr<Module> m = Import(ReadFile(DataDir() / "lapack.1.17.0.bc"));
  ASSERT_NE(m, nullptr);
  const Instruction* call = nullptr;
  for (const auto& c : m->computations()) {
    for (const auto& i : c->instructions()) {
      if (i->Is(Opcode::kCustomCall) && i->custom_call_target() == "lapack_spotrf_ffi") call = i.get();
    }
  }
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->attrs().GetEnum<CustomCallApiVersion>(AttrId::kApiVersion), CustomCallApiVersion::kTypedFfi);
  const FfiDictionary& ffi = call->attrs().Get<FfiDictionary>(AttrId::kFfiAttributes);
  ASSERT_TRUE(ffi.contains("uplo"));
  EXPECT_EQ(ffi.at("uplo").type, PrimitiveType::kU8);
  EXPECT_EQ(ffi.at("uplo").bytes, "L");
  const auto& layouts = call->attrs().Get<std::vector<Shape>>(AttrId::kOperandLayouts);
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].ToString(true), "f32[3,3]{0,1}");
  EXPECT_EQ(call->shape().tuple_shapes(0).ToString(true), "f32[3,3]{0,1}");
  const auto& aliases = call->attrs().Get<OutputOperandAliases>(AttrId::kOutputOperandAliases);
  ASSERT_EQ(aliases.size(), 1u);
  EXPECT_EQ(aliases[0].output_index, Ints({0}));
}

TEST(Import, CustomCallConfigKeepsItsBytes) {
  std::unique_ptr<Module> m =
      Import(Main("%a: tensor<f32>", "tensor<f32>",
                  "%0 = stablehlo.custom_call @f(%a) {backend_config = \"a\\00b\", has_side_effect = "
                  "true, api_version = 2 : i32} : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>"));
  ASSERT_NE(m, nullptr);
  const Instruction* call = m->entry()->root();
  EXPECT_EQ(call->attrs().GetString(AttrId::kOpaque), std::string("a\0b", 3));
  EXPECT_TRUE(call->attrs().GetBool(AttrId::kHasSideEffect));
  EXPECT_EQ(call->attrs().GetEnum<CustomCallApiVersion>(AttrId::kApiVersion), CustomCallApiVersion::kStatusReturning);
}

TEST(Import, CompilerCallsVanish) {
  EXPECT_THAT(Hlo(Main("%a: tensor<2x2xf32>", "tensor<2x2xf32>", R"(
    %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{replicated}"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.custom_call @annotate_device_placement(%0) {has_side_effect = true} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = stablehlo.custom_call @LayoutConstraint(%1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %t = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%t) {error_message = "no", has_side_effect = true} : (tensor<i1>) -> ()
    return %2 : tensor<2x2xf32>)")),
              Not(HasSubstr("custom-call")));
  EXPECT_THAT(ErrorOf(Main("", "()", R"(
    %t = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%t) {error_message = "b must be even"} : (tensor<i1>) -> ()
    return)")),
              HasSubstr("shape assertion failed: b must be even"));
}

TEST(Import, OrderAskedForChangesNoValue) {
  const std::string hlo =
      Hlo(Main("%a: tensor<2xf32>, %b: tensor<2xf32>", "tensor<2xf32>",
               "%0 = stablehlo.add %a, %b : tensor<2xf32>\n"
               "stablehlo.custom_call @control_dep(%0, %a) {has_side_effect = true, api_version = 4 : "
               "i32, mhlo.backend_config = {}} : (tensor<2xf32>, tensor<2xf32>) -> ()\n"
               "return %0 : tensor<2xf32>"));
  EXPECT_THAT(hlo, HasSubstr("add("));
  EXPECT_THAT(hlo, Not(HasSubstr("custom-call")));
}

TEST(Import, ApproxTopKIsExact) {
  Literal r = Eval(R"(
  func.func private @gt(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
    %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    return %0 : tensor<i1>
  }
  func.func public @main() -> (tensor<2xf32>, tensor<2xi32>) {
    %x = stablehlo.constant dense<[1.0, 4.0, 2.0, 3.0]> : tensor<4xf32>
    %n = stablehlo.iota dim = 0 : tensor<4xi32>
    %lo = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %no = stablehlo.constant dense<-1> : tensor<i32>
    %0:2 = stablehlo.custom_call @ApproxTopK(%x, %n, %lo, %no) {called_computations = [@gt], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}} : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
    return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
  })");
  ASSERT_TRUE(r.shape().IsTuple());
  EXPECT_EQ(r.elements()[0].GetAsDouble(0), 4);
  EXPECT_EQ(r.elements()[0].GetAsDouble(1), 3);
  EXPECT_EQ(r.elements()[1].GetAsInt(1), 3);
}

TEST(Import, ShardyHasNoEffectOnOnePartition) {
  std::string hlo = Hlo(ReadFile(DataDir() / "manual_one.1.17.0.bc"));
  EXPECT_THAT(hlo, Not(HasSubstr("custom-call")));
  EXPECT_THAT(hlo, HasSubstr("all-reduce"));
  std::string split = Hlo(ReadFile(DataDir() / "all_gather.1.17.0.bc"));
  EXPECT_THAT(split, HasSubstr("custom_call_target=\"SPMDFullToShardShape\""));
  EXPECT_THAT(split, HasSubstr("custom_call_target=\"SPMDShardToFullShape\""));
  EXPECT_THAT(split, HasSubstr("sharding={manual}"));
  EXPECT_THAT(split, HasSubstr("num_partitions=8"));
}

TEST(Import, CompositesAreKnownOrCalled) {
  EXPECT_THAT(Hlo(ReadFile(DataDir() / "top_k.1.17.0.bc")), HasSubstr("topk("));
  std::string hlo = Hlo(ReadFile(DataDir() / "composites.1.17.0.bc"));
  EXPECT_THAT(hlo, HasSubstr("f32[4,8] erf("));
  EXPECT_THAT(hlo, HasSubstr("chlo.asin"));
  EXPECT_THAT(hlo, HasSubstr("is_composite=true"));
}

TEST(Import, ChloExpansionsAreAccurate) {
  auto value = [&](absl::string_view op, double x) {
    return Eval(absl::StrCat("func.func public @main(%a: tensor<f64>) -> tensor<f64> {\n%0 = chlo.", op,
                             " %a : tensor<f64> -> tensor<f64>\nreturn %0 : tensor<f64>\n}"),
                {Literal::Scalar(PrimitiveType::kF64, x)})
        .GetAsDouble(0);
  };
  auto near = [](double a, double b) { return a == b || std::abs(a - b) <= 4e-15 * std::abs(b); };
  for (double x : {-0.999999, -0.5, -1e-9, 1e-300, 1e-9, 0.3, 0.999999}) {
    EXPECT_PRED2(near, value("asin", x), std::asin(x));
    EXPECT_PRED2(near, value("acos", x), std::acos(x));
    EXPECT_PRED2(near, value("atanh", x), std::atanh(x));
  }
  for (double x : {-710.1, -20.0, -1.0, -1e-9, 1e-300, 1e-9, 0.5, 30.0, 710.1}) {
    EXPECT_PRED2(near, value("sinh", x), std::sinh(x));
    EXPECT_PRED2(near, value("atan", x), std::atan(x));
    EXPECT_PRED2(near, value("asinh", x), std::asinh(x));
  }
  for (double x : {1.0, 1.0000001, 2.0, 1e10, 1e300}) EXPECT_PRED2(near, value("acosh", x), std::acosh(x));
  for (double x : {-1e300, 1e300}) EXPECT_PRED2(near, value("asinh", x), std::asinh(x));
}

TEST(Import, ChloBroadcasts) {
  Literal r = Eval(Main("", "tensor<2x2xf32>", R"(
    %a = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
    %b = stablehlo.constant dense<[10.0, 20.0]> : tensor<2xf32>
    %0 = chlo.broadcast_subtract %a, %b : (tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>)"));
  EXPECT_EQ(r.GetAsDouble(0), -9);
  EXPECT_EQ(r.GetAsDouble(3), -18);
}

TEST(Import, ChloOperationsWithARowOfTheirOwn) {
  Literal r = Eval(Main("", "(tensor<3xi32>, tensor<i32>)", R"(
    %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
    %z = stablehlo.constant dense<10> : tensor<i32>
    %0, %1 = chlo.scan (%x) inits (%z) dimension = 0 attributes {is_reverse = true} {
    ^bb0(%input: tensor<i32>, %carry: tensor<i32>):
      %2 = stablehlo.add %input, %carry : tensor<i32>
      stablehlo.return %2, %2 : tensor<i32>, tensor<i32>
    } : (tensor<3xi32>, tensor<i32>) -> (tensor<3xi32>, tensor<i32>)
    return %0, %1 : tensor<3xi32>, tensor<i32>)"));
  EXPECT_EQ(r.elements()[0].GetAsInt(0), 16);
  EXPECT_EQ(r.elements()[0].GetAsInt(2), 13);
  EXPECT_EQ(r.elements()[1].GetAsInt(0), 16);

  r = Eval(Main("", "tensor<2xi32>", R"(
    %a = stablehlo.constant dense<[-2147483648, 65536]> : tensor<2xi32>
    %b = stablehlo.constant dense<[4, 65536]> : tensor<2xi32>
    %0 = chlo.mulhi %a, %b : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
    return %0 : tensor<2xi32>)"));
  EXPECT_EQ(r.GetAsInt(0), -2);
  EXPECT_EQ(r.GetAsInt(1), 1);

  // Rows 0 and 1 by the first matrix, row 2 by the second.
  r = Eval(Main("", "tensor<3x1xf32>", R"(
    %a = stablehlo.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
    %b = stablehlo.constant dense<[[[10.0]], [[100.0]]]> : tensor<2x1x1xf32>
    %n = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
    %0 = "chlo.ragged_dot"(%a, %b, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<3x1xf32>, tensor<2x1x1xf32>, tensor<2xi32>) -> tensor<3x1xf32>
    return %0 : tensor<3x1xf32>)"));
  EXPECT_EQ(r.GetAsDouble(1), 20);
  EXPECT_EQ(r.GetAsDouble(2), 300);
}

TEST(Import, EinsumAndTorchIndexSelect) {
  Literal r = Eval(Main("", "tensor<2x2xf32>", R"(
    %a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %b = stablehlo.constant dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>
    %0 = stablehlo.einsum %a, %b, config = "ij,jk->ki" : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>)"));
  EXPECT_EQ(r.GetAsDouble(1), 43);  // (row 1 of a) . (column 0 of b), transposed
  r = Eval(Main("", "tensor<2x1x2xf32>", R"(
    %a = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %i = stablehlo.constant dense<[[2, 0]]> : tensor<1x2xi32>
    %0 = "stablehlo.torch_index_select"(%a, %i) {dim = 1 : i64, batch_dims = 0 : i64} : (tensor<2x3xf32>, tensor<1x2xi32>) -> tensor<2x1x2xf32>
    return %0 : tensor<2x1x2xf32>)"));
  EXPECT_EQ(r.GetAsDouble(0), 3);
  EXPECT_EQ(r.GetAsDouble(1), 1);
  EXPECT_EQ(r.GetAsDouble(2), 6);
}

TEST(Import, AllToAllAlongTwoDimensionsIsSplitExchangedAndJoined) {
  std::string hlo = Hlo(Main("%a: tensor<4x6xf32>", "tensor<8x3xf32>", R"(
    %0 = "stablehlo.all_to_all"(%a) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x6xf32>) -> tensor<8x3xf32>
    return %0 : tensor<8x3xf32>)"));
  EXPECT_THAT(hlo, HasSubstr("f32[4,2,3] all-to-all("));
  EXPECT_THAT(hlo, HasSubstr("f32[2,4,3] transpose("));
  EXPECT_THAT(hlo, HasSubstr("f32[8,3] reshape("));
}

TEST(Import, ReplicaGroupsByMeshAxes) {
  constexpr absl::string_view kProgram = R"(
  sdy.mesh @mesh = <["a"=2, "b"=2]> {stablehlo.mesh = {axes = [{name = "a", size = 2 : i64}, {name = "b", size = 2 : i64}]}}
  func.func @main(%a: tensor<f32>) -> tensor<f32> {
    %0 = "stablehlo.all_reduce"(%a) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "AXIS">]>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  })";
  auto with = [&](absl::string_view axis) {
    std::string text(kProgram);
    text.replace(text.find("AXIS"), 4, std::string(axis));
    return text;
  };
  EXPECT_THAT(Hlo(with("a")), HasSubstr("replica_groups={{0,2},{1,3}}"));
  EXPECT_THAT(Hlo(with("b")), HasSubstr("replica_groups={{0,1},{2,3}}"));
  EXPECT_THAT(ErrorOf(with("c")), HasSubstr("mesh @mesh has no axis c"));
}

TEST(Import, HostTransfers) {
  std::string hlo = Hlo(Main("%a: tensor<2xf32>, %t: !stablehlo.token", "(tensor<2xf32>, !stablehlo.token)", R"(
    %0 = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
    %1:2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
    return %1#0, %1#1 : tensor<2xf32>, !stablehlo.token)"));
  EXPECT_THAT(hlo, HasSubstr("channel_id=5"));
  EXPECT_THAT(hlo, HasSubstr("(f32[2], u32[], token[]) recv("));
  EXPECT_THAT(hlo, HasSubstr("recv-done("));
}

TEST(Import, ReductionsComputeInTheTypeOfTheirBody) {
  // 1 + 2^-30 is lost in f32.
  const Literal x = Literal::FromValues<float>({2}, {1.0f, std::ldexp(1.0f, -30)});
  const char* body =
      "^bb0(%p: tensor<f64>, %q: tensor<f64>):\n  %s = stablehlo.add %p, %q : tensor<f64>\n  stablehlo.return %s : "
      "tensor<f64>\n";
  Literal sum = Eval(
      Main(
          "%a: tensor<2xf32>", "tensor<f64>",
          absl::StrCat("%i = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = \"stablehlo.reduce\"(%a, %i) ({\n", body,
                       "}) {dimensions = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<f64>\nreturn %0 : "
                       "tensor<f64>")),
      {x});
  EXPECT_EQ(sum, Literal::Scalar(PrimitiveType::kF64, 1 + std::ldexp(1.0, -30))) << sum.ToString();
  Literal windows = Eval(
      Main("%a: tensor<2xf32>", "tensor<1xf64>",
           absl::StrCat(
               "%i = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = \"stablehlo.reduce_window\"(%a, %i) ({\n", body,
               "}) {window_dimensions = array<i64: 2>} : (tensor<2xf32>, tensor<f32>) -> tensor<1xf64>\nreturn "
               "%0 : tensor<1xf64>")),
      {x});
  EXPECT_EQ(windows, Literal::FromValues<double>({1}, {1 + std::ldexp(1.0, -30)})) << windows.ToString();
}

TEST(Import, ErrorsNameOpAndPlace) {
  EXPECT_THAT(ErrorOf(Main(
                  "%a: tensor<2xf32>, %b: tensor<3xf32>", "tensor<2xf32>",
                  "%0 = \"stablehlo.add\"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32> loc(\"f.py\":3:1)\n"
                  "return %0 : tensor<2xf32>")),
              HasSubstr("stablehlo import: stablehlo.add at f.py:3: "));
  EXPECT_THAT(ErrorOf(Main("%a: tensor<2xf32>", "tensor<3xf32>",
                           "%0 = stablehlo.negate %a : (tensor<2xf32>) -> tensor<3xf32>\nreturn %0 : tensor<3xf32>")),
              HasSubstr("result 0 is f32[2], declared f32[3]"));
  EXPECT_THAT(ErrorOf(Main("%a: tensor<?xf32>", "tensor<?xf32>", "return %a : tensor<?xf32>"),
                      absl::StatusCode::kUnimplemented),
              HasSubstr("dimension 0 is unknown and has no bound"));
  EXPECT_THAT(ErrorOf("func.func private @f() {return}\nfunc.func private @g() {return}"), HasSubstr("no entry"));
  EXPECT_THAT(ErrorOf("func.func @main() {\n call @f() : () -> ()\n return\n}\nfunc.func private @f() {\n call @main() "
                      ": () -> ()\n return\n}"),
              HasSubstr("calls itself"));
  EXPECT_THAT(ErrorOf("func.func @main() {\n call @f() : () -> ()\n return\n}"),
              HasSubstr("function @f is not defined"));
  EXPECT_THAT(ErrorOf(Main("%a: tensor<1099511627776x1099511627776x1099511627776xf32>",
                           "tensor<1099511627776x1099511627776x1099511627776xf32>",
                           "return %a : tensor<1099511627776x1099511627776x1099511627776xf32>")),
              HasSubstr("stablehlo import: func.func"));
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("onnx", "x");
  ASSERT_FALSE(m.ok());
  EXPECT_THAT(std::string(m.status().message()), HasSubstr("program format \"onnx\""));
}

TEST(Import, HloTextIsTakenToo) {
  absl::StatusOr<std::unique_ptr<Module>> m =
      ImportProgram("mlir", "// a comment\nHloModule m\nENTRY e {\n  ROOT c = f32[] constant(1)\n}\n");
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ((*m)->name(), "m");
}

TEST(Import, HloProtosGoThereAndBack) {
  std::unique_ptr<Module> m = Import(ReadFile(DataDir() / "control.1.17.0.bc"));
  ASSERT_NE(m, nullptr);
  absl::StatusOr<std::string> bytes = SerializeHloModule(*m), with_config = SerializeHloModuleWithConfig(*m);
  ASSERT_TRUE(bytes.ok() && with_config.ok());
  absl::StatusOr<std::unique_ptr<Module>> back = ImportProgram("hlo", *bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)->ToString(), m->ToString());
  back = ImportProgram("hlo_with_config", *with_config);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)->ToString(), m->ToString());
  EXPECT_FALSE(ImportProgram("hlo", "no proto").ok());
}

TEST(Import, DeepCallChainsAreRefused) {
  std::string text = "func.func @main() {\n call @f0() : () -> ()\n return\n}\n";
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&text, "func.func private @f", i, "() {\n call @f", i + 1, "() : () -> ()\n return\n}\n");
  }
  EXPECT_THAT(ErrorOf(text, absl::StatusCode::kResourceExhausted), HasSubstr("nested too deeply"));
}

// Regions that become no computation count, too.
TEST(Import, DeepRegionsInDeepCallsAreRefused) {
  constexpr int kFunctions = 80, kRegions = 180;
  std::string text =
      "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n %c = func.call @f0(%a) : (tensor<f32>) -> tensor<f32>\n "
      "return %c : tensor<f32>\n}\n";
  for (int f = 0; f < kFunctions; ++f) {
    absl::StrAppend(&text, "func.func private @f", f, "(%b0: tensor<f32>) -> tensor<f32> {\n");
    for (int r = 0; r < kRegions; ++r) {
      absl::StrAppend(&text, " %r", r, " = \"sdy.named_computation\"(%b", r, ") <{name = \"n\"}> ({\n^bb0(%b", r + 1,
                      ": tensor<f32>):\n");
    }
    if (f + 1 < kFunctions) {
      absl::StrAppend(&text, " %r", kRegions, " = func.call @f", f + 1, "(%b", kRegions,
                      ") : (tensor<f32>) -> tensor<f32>\n");
    } else {
      absl::StrAppend(&text, " %r", kRegions, " = stablehlo.negate %b", kRegions, " : tensor<f32>\n");
    }
    for (int r = kRegions; r > 0; --r)
      absl::StrAppend(&text, " \"sdy.return\"(%r", r, ") : (tensor<f32>) -> ()\n}) : (tensor<f32>) -> tensor<f32>\n");
    absl::StrAppend(&text, " return %r0 : tensor<f32>\n}\n");
  }
  EXPECT_THAT(ErrorOf(text, absl::StatusCode::kResourceExhausted), HasSubstr("nested too deeply"));
}

TEST(Import, DamagedProgramsNeverCrash) {
  std::mt19937 random(7);
  int imported = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DataDir())) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(".1.17.0.bc") && !name.ends_with(".generic.mlir")) continue;
    const std::string good = ReadFile(entry.path());
    for (int trial = 0; trial < 60; ++trial) {
      std::string bytes = good;
      for (int c = 0; c < 1 + trial % 3; ++c) bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", bytes);
      m.ok() ? ++imported : ++refused;
    }
  }
  EXPECT_GT(imported, 200);
  EXPECT_GT(refused, 1000);
}

// What a few bytes describe may be large, and operations share it.
TEST(Import, ShortProgramsOfLargeMeaningAreRefused) {
  const std::string pair = "(tensor<2x2xf32>, tensor<2x2xf32>) -> ";
  EXPECT_THAT(ErrorOf(Main("%a: tensor<2x2xf32>", "tensor<2x2xf32>",
                           absl::StrCat("%0 = \"stablehlo.einsum\"(%a, %a) {einsum_config = \"ab,bc->ac\"} : ", pair,
                                        "!stablehlo.token\nreturn %a : tensor<2x2xf32>"))),
              HasSubstr("result is declared token[]"));
  EXPECT_NE(
      ErrorOf(Main("%a: tensor<2xi32>", "tensor<2xi32>",
                   "%0 = stablehlo.custom_call @ragged_all_to_all(%a, %a, %a, %a, %a, %a) {api_version = 4 : i32, "
                   "backend_config = {replica_groups = dense<> : tensor<1099511627776x0xi64>}} : (tensor<2xi32>, "
                   "tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> "
                   "tensor<3xi32>\nreturn %a : tensor<2xi32>")),
      "");
  EXPECT_THAT(
      ErrorOf(Main("%a: tensor<f32>", "tensor<f32>",
                   "%0 = stablehlo.custom_call @foo(%a) {api_version = 4 : i32, backend_config = {x = dense<0.0> : "
                   "tensor<100000000xf32>, y = dense<1> : tensor<100000000xi8>}} : (tensor<f32>) -> tensor<f32>\n"
                   "return %0 : tensor<f32>"),
              absl::StatusCode::kResourceExhausted),
      HasSubstr("custom call attribute x of 400000000 bytes"));
  std::string calls, value(5000000, 'v');
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&calls, "%", i,
                    " = stablehlo.composite \"my.c\" %a {composite_attributes = #big, decomposition = @d} : "
                    "(tensor<f32>) -> tensor<f32>\n");
  }
  EXPECT_THAT(
      ErrorOf(absl::StrCat("#big = {x = \"", value, "\"}\n",
                           Main("%a: tensor<f32>", "tensor<f32>", calls + "return %a : tensor<f32>"),
                           "func.func private @d(%a: tensor<f32>) -> tensor<f32> {\nreturn %a : tensor<f32>\n}\n"),
              absl::StatusCode::kResourceExhausted),
      HasSubstr("attributes of composites are too large"));
}

TEST(Import, LongNamesOfLocationsAreCut) {
  std::unique_ptr<Module> m =
      Import(absl::StrCat(Main("%a: tensor<2xf32>", "tensor<2xf32>",
                               "%0 = stablehlo.sine %a : tensor<2xf32> loc(#long)\nreturn %0 : tensor<2xf32>"),
                          "#long = loc(\"", std::string(50000, 'n'), "\"(\"", std::string(50000, 'f'), "\":12:3))\n"));
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->entry()->root()->metadata().op_name, std::string(2048, 'n'));
  EXPECT_EQ(m->entry()->root()->metadata().source_file, std::string(2048, 'f'));
}

}  // namespace
}  // namespace backplane
