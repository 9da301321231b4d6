// What is exported reads back: the same tree for StableHLO programs, the same values for HLO modules.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/eval/evaluator.h"
#include "core/import/export/bytecode_writer.h"
#include "core/import/export/export.h"
#include "core/import/export/from_hlo.h"
#include "core/import/export/stablehlo_printer.h"
#include "core/import/import.h"
#include "core/import/stablehlo/bytecode_reader.h"
#include "core/import/stablehlo/text_parser.h"
#include "core/text/hlo_parser.h"
#include "core/text/hlo_printer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using stablehlo::DumpOptions;
using stablehlo::SourceModule;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::vector<std::filesystem::path> Files(absl::string_view folder, absl::string_view ending) {
  std::vector<std::filesystem::path> out;
  for (const auto& e : std::filesystem::directory_iterator(absl::StrCat(BACKPLANE_SOURCE_DIR, "/", folder))) {
    if (absl::EndsWith(e.path().string(), ending)) out.push_back(e.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string Dump(const SourceModule& m, bool locations) {
  DumpOptions options;
  options.locations = locations;
  return DumpSource(m, options);
}

// ---- the writers against the readers ----

TEST(StablehloPrinter, EveryProgramReadsBack) {
  int seen = 0;
  for (const auto& file : Files("core/import/stablehlo/testdata", ".generic.mlir")) {
    SCOPED_TRACE(file.filename().string());
    const std::string text = ReadFile(file);
    auto source = stablehlo::ParseStablehloText(text);
    ASSERT_TRUE(source.ok()) << source.status();
    for (bool pretty : {true, false}) {
      StablehloTextOptions options;
      options.pretty = pretty;
      auto printed = stablehlo::PrintStablehlo(**source, options);
      ASSERT_TRUE(printed.ok()) << printed.status();
      auto again = stablehlo::ParseStablehloText(*printed);
      ASSERT_TRUE(again.ok()) << again.status() << "\n" << *printed;
      EXPECT_EQ(Dump(**again, false), Dump(**source, false)) << *printed;
    }
    ++seen;
  }
  EXPECT_GE(seen, 30);
}

TEST(StablehloPrinter, PrettyFormIsTheDialects) {
  // Programs printed by MLIR itself, locations aside: ours differ in the names of values only.
  auto words = [](const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%') {  // any name
        out += '%';
        while (i + 1 < text.size() && (std::isalnum(static_cast<unsigned char>(text[i + 1])) || text[i + 1] == '_'))
          ++i;
      } else {
        out += text[i];
      }
    }
    return out;
  };
  for (const char* body : {
           "    %0 = stablehlo.add %arg0, %arg0 : tensor<2x3xf32>\n",
           "    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n",
           "    %0 = stablehlo.slice %arg0 [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>\n",
           "    %0 = stablehlo.compare LT, %arg0, %arg0, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
           "tensor<2x3xi1>\n",
           "    %0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1], precision = [HIGH, DEFAULT] : "
           "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>\n",
           "    %0 = stablehlo.iota dim = 0 : tensor<4xi32>\n",
           "    %0 = stablehlo.constant dense<[[1.5e+00, -2.0e+00]]> : tensor<1x2xf32>\n",
           "    %0 = stablehlo.reverse %arg0, dims = [1] : tensor<2x3xf32>\n",
           "    %0 = stablehlo.custom_call @foo(%arg0) {has_side_effect = true} : (tensor<2x3xf32>) -> tensor<f32>\n",
           "    %0:2 = stablehlo.custom_call @\"a b\"() : () -> (tensor<f32>, tensor<f32>)\n",
           "    %0 = stablehlo.concatenate %arg0, %arg0, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
           "tensor<4x3xf32>\n",
           "    %0 = stablehlo.fft %arg0, type = RFFT, length = [3] : (tensor<2x3xf32>) -> tensor<2x2xcomplex<f32>>\n",
       }) {
    const std::string text =
        absl::StrCat("module {\n  func.func public @main(%arg0: tensor<2x3xf32>) {\n", body, "    return\n  }\n}\n");
    auto source = stablehlo::ParseStablehloText(text);
    ASSERT_TRUE(source.ok()) << source.status() << text;
    auto printed = stablehlo::PrintStablehlo(**source);
    ASSERT_TRUE(printed.ok()) << printed.status();
    EXPECT_EQ(words(*printed), words(text));
  }
}

constexpr StablehloVersion kVersions[] = {{0, 9, 0},  {0, 10, 0}, {0, 12, 0}, {0, 14, 0}, {0, 15, 0}, {0, 19, 0},
                                          {1, 0, 0},  {1, 1, 0},  {1, 5, 0},  {1, 9, 0},  {1, 10, 0}, {1, 12, 0},
                                          {1, 14, 0}, {1, 17, 0}, {1, 18, 0}, {1, 19, 0}, {1, 20, 0}};

TEST(BytecodeWriter, EveryProgramReadsBackFromEveryVersion) {
  std::map<std::string, int> written;
  int newest = 0, all = 0;
  for (const auto& file : Files("core/import/stablehlo/testdata", ".generic.mlir")) {
    SCOPED_TRACE(file.filename().string());
    const std::string text = ReadFile(file);
    auto source = stablehlo::ParseStablehloText(text);
    ASSERT_TRUE(source.ok()) << source.status();
    ++all;
    for (const StablehloVersion& v : kVersions) {
      const std::string version = absl::StrCat(v.major, ".", v.minor, ".", v.patch);
      SCOPED_TRACE(version);
      auto bytes = stablehlo::WritePortableArtifact(**source, v);
      if (!bytes.ok()) {
        // Too old for the program, or Shardy, which no HLO module leads to.
        EXPECT_EQ(bytes.status().code(), absl::StatusCode::kUnimplemented) << bytes.status();
        EXPECT_THAT(std::string(bytes.status().message()),
                    ::testing::AnyOf(HasSubstr(version), HasSubstr("sdy"), HasSubstr("chlo")));
        continue;
      }
      auto again = stablehlo::ReadPortableArtifact(*bytes);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ((*again)->producer, absl::StrCat("StableHLO_v", version));
      EXPECT_EQ(Dump(**again, true), Dump(**source, true));
      ++written[version];
      newest += v == StablehloVersion{1, 20, 0};
    }
  }
  EXPECT_GE(newest, 25);  // the others hold Shardy
  EXPECT_GE(all, 37);
  EXPECT_GE(written["0.9.0"], 8);
  EXPECT_GE(written["1.0.0"], 20);
}

// ---- HLO modules ----

Literal Random(const Shape& shape, std::mt19937& rng) {
  if (shape.IsToken()) return Literal::Token();
  if (shape.IsTuple()) {
    std::vector<Literal> parts;
    for (const Shape& s : shape.tuple_shapes()) parts.push_back(Random(s, rng));
    return Literal::Tuple(std::move(parts));
  }
  Literal out(shape.WithoutLayout());
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    if (IsFloat(shape.element_type()) || IsComplex(shape.element_type())) {
      const double v = static_cast<double>(static_cast<int>(rng() % 2001) - 1000) / 256;
      out.SetFromDouble(i, shape.element_type() == PrimitiveType::kF8E8M0FNU ? std::abs(v) + 0.25 : v);
    } else {
      out.SetFromInt(i, shape.element_type() == PrimitiveType::kPred ? rng() % 2 : rng() % 4);
    }
  }
  return out;
}

void Leaves(const Literal& literal, std::vector<Literal>* out) {
  if (!literal.shape().IsTuple()) return out->push_back(literal);
  for (const Literal& e : literal.elements()) Leaves(e, out);
}

bool SameLeaves(const Literal& a, const Literal& b) {
  std::vector<Literal> x, y;
  Leaves(a, &x);
  Leaves(b, &y);
  return x == y;
}

// Exports, imports again and compares what both compute, where that can be computed here.
struct Counts {
  int exported = 0, evaluated = 0;
};
void ExpectSameMeaning(const Module& module, Counts* counts) {
  std::mt19937 rng(7);
  std::vector<Literal> arguments;
  for (const Instruction* p : module.entry()->parameters()) arguments.push_back(Random(p->shape(), rng));
  absl::StatusOr<Literal> expected = Evaluate(module, arguments);
  for (const char* form : {"pretty", "generic", "artifact"}) {
    SCOPED_TRACE(form);
    StablehloTextOptions options;
    options.pretty = absl::string_view(form) == "pretty";
    auto text =
        absl::string_view(form) == "artifact" ? ExportPortableArtifact(module) : ExportStablehloText(module, options);
    ASSERT_TRUE(text.ok()) << text.status();
    auto again = ImportStablehlo(*text);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << (absl::string_view(form) == "artifact" ? "" : *text);
    EXPECT_EQ((*again)->config().num_partitions, module.config().num_partitions);
    EXPECT_EQ((*again)->config().num_replicas, module.config().num_replicas);
    if (!expected.ok()) continue;
    absl::StatusOr<Literal> found = Evaluate(**again, arguments);
    ASSERT_TRUE(found.ok()) << found.status() << "\n" << *text;
    EXPECT_TRUE(SameLeaves(*found, *expected)) << module.ToString() << "\n"
                                               << (absl::string_view(form) == "artifact" ? "" : *text);
  }
  ++counts->exported;
  counts->evaluated += expected.ok();
}

TEST(Export, HloProgramsKeepTheirMeaning) {
  Counts counts;
  for (const auto& file : Files("core/text/testdata", ".hlo")) {
    SCOPED_TRACE(file.filename().string());
    auto module = ParseHloModule(ReadFile(file));
    ASSERT_TRUE(module.ok()) << module.status();
    auto text = ExportStablehloText(**module);
    if (file.filename() == "rngu_opt.hlo") {
      EXPECT_EQ(text.status(), absl::UnimplementedError("stablehlo export: rng-get-and-update-state = "
                                                        "rng-get-and-update-state: StableHLO has no random state"));
      continue;
    }
    // The text of a program for eight devices does not say so.
    if (text.ok() && absl::StrContains(*text, "GlobalToLocalShape")) (*module)->config().num_partitions = 8;
    ExpectSameMeaning(**module, &counts);
  }
  EXPECT_GE(counts.exported, 45);
  EXPECT_GE(counts.evaluated, 20);
}

TEST(Export, StablehloProgramsKeepTheirMeaning) {
  Counts counts;
  for (const auto& file : Files("core/import/stablehlo/testdata", ".pretty.mlir")) {
    SCOPED_TRACE(file.filename().string());
    auto module = ImportStablehlo(ReadFile(file));
    ASSERT_TRUE(module.ok()) << module.status();
    ExpectSameMeaning(**module, &counts);
  }
  EXPECT_GE(counts.exported, 35);
  EXPECT_GE(counts.evaluated, 20);
}

std::unique_ptr<Module> Hlo(absl::string_view body, absl::string_view before = "") {
  const std::string text = absl::StrCat("HloModule m\n\n", before, "\nENTRY %main {\n", body, "\n}\n");
  auto m = ParseHloModule(text);
  EXPECT_TRUE(m.ok()) << m.status() << text;
  return m.ok() ? *std::move(m) : nullptr;
}

// Readers that do not know a composite's name compute its decomposition: it must mean the same.
TEST(Export, DecompositionsComputeTheSame) {
  const struct {
    const char *body, *composite;
    double bound;
  } cases[] = {
      {"%p = f32[40] parameter(0)\n ROOT %r = f32[40] erf(%p)", "chlo.erf", 2e-6},
      {"%p = f64[40] parameter(0)\n ROOT %r = f64[40] erf(%p)", "chlo.erf", 1e-15},
      {"%p = bf16[40] parameter(0)\n ROOT %r = bf16[40] erf(%p)", "chlo.erf", 1e-2},
      {"%p = f32[40] parameter(0)\n ROOT %r = f32[40] cosh(%p)", "chlo.cosh", 3e-5},
      {"%p = f32[3,9] parameter(0)\n ROOT %r = (f32[3,4], s32[3,4]) topk(%p), k=4, largest=true", "chlo.top_k", 0},
      {"%p = s32[3,9] parameter(0)\n ROOT %r = (s32[3,4], s32[3,4]) topk(%p), k=4, largest=true", "chlo.top_k", 0},
      {"%p = f8e4m3fn[4,8] parameter(0)\n %q = f8e4m3fn[8,3] parameter(1)\n %s = f8e8m0fnu[4,2] parameter(2)\n %t = "
       "f8e8m0fnu[1,3] parameter(3)\n ROOT %r = f32[4,3] scaled-dot(%p, %q, %s, %t), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={0}",
       "xla.scaled_dot", 0},
  };
  std::mt19937 rng(3);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    std::unique_ptr<Module> m = Hlo(c.body);
    ASSERT_NE(m, nullptr);
    auto text = ExportStablehloText(*m);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, HasSubstr(absl::StrCat("stablehlo.composite \"", c.composite, "\"")));
    auto plain = ImportStablehlo(
        absl::StrReplaceAll(*text, {{absl::StrCat("composite \"", c.composite, "\""), "composite \"other.unknown\""}}));
    ASSERT_TRUE(plain.ok()) << plain.status() << *text;
    std::vector<Literal> arguments;
    for (const Instruction* p : m->entry()->parameters()) arguments.push_back(Random(p->shape(), rng));
    auto expected = Evaluate(*m, arguments), found = Evaluate(**plain, arguments);
    ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
    std::vector<Literal> a, b;
    Leaves(*expected, &a);
    Leaves(*found, &b);
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k) {
      for (int64_t i = 0; i < a[k].num_elements(); ++i) {
        const double want = a[k].GetAsDouble(i);
        EXPECT_NEAR(b[k].GetAsDouble(i), want, c.bound * std::max(1.0, std::abs(want))) << i;
      }
    }
  }
}

// The smallest are no composite.
TEST(Export, SmallestOfTopK) {
  std::unique_ptr<Module> m =
      Hlo("%p = f32[3,9] parameter(0)\n ROOT %r = (f32[3,4], s32[3,4]) topk(%p), k=4, largest=false");
  ASSERT_NE(m, nullptr);
  Counts counts;
  ExpectSameMeaning(*m, &counts);
  EXPECT_EQ(counts.evaluated, 1);
  EXPECT_THAT(*ExportStablehloText(*m), Not(HasSubstr("composite")));
}

// StableHLO's sign and abs take no unsigned integers.
TEST(Export, SignAndAbsOfUnsigned) {
  for (const char* op : {"sign", "abs"}) {
    for (const char* type : {"u2", "u8", "u32", "u64"}) {
      std::unique_ptr<Module> m =
          Hlo(absl::StrReplaceAll("%p = $T[16] parameter(0)\n ROOT %r = $T[16] $O(%p)", {{"$T", type}, {"$O", op}}));
      ASSERT_NE(m, nullptr);
      Counts counts;
      ExpectSameMeaning(*m, &counts);
      EXPECT_EQ(counts.evaluated, 1);
      EXPECT_THAT(*ExportStablehloText(*m), Not(HasSubstr(absl::StrCat("stablehlo.", op))));
    }
    std::unique_ptr<Module> m =
        Hlo(absl::StrReplaceAll("%p = s8[16] parameter(0)\n ROOT %r = s8[16] $O(%p)", {{"$O", op}}));
    ASSERT_NE(m, nullptr);
    EXPECT_THAT(*ExportStablehloText(*m), HasSubstr(absl::StrCat("stablehlo.", op)));
  }
}

constexpr char kAdd[] =
    "%add (a: f32[], b: f32[]) -> f32[] {\n %a = f32[] parameter(0)\n %b = f32[] parameter(1)\n"
    " ROOT %s = f32[] add(%a, %b)\n}\n";

// What StableHLO has in another form: read back it is that form.
TEST(Export, Forms) {
  const struct {
    const char* body;
    std::vector<const char*> parts;
  } cases[] = {
      {"%p = f32[4] parameter(0)\n ROOT %r = (f32[4], f32[4]) all-reduce(%p, %p), channel_id=3, "
       "replica_groups=[2,2]<=[4], "
       "use_global_device_ids=true, to_apply=%add",
       {"handle = 3", "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>", "use_global_device_ids"}},
      {"%p = f32[4] parameter(0)\n %q = f32[4] parameter(1)\n ROOT %r = (f32[4], f32[4]) all-to-all(%p, %q), "
       "replica_groups={{0,1}}",
       {"stablehlo.concatenate", "split_count = 2", "stablehlo.slice"}},
      {"%p = f32[4,4] parameter(0)\n ROOT %r = f32[4,4] all-to-all(%p), replica_groups={{0,1},{2,3}}, dimensions={1}",
       {"split_dimension = 1", "concat_dimension = 1"}},
      {"%p = f32[4] parameter(0)\n %s = (f32[4], f32[8]) all-gather-start(%p), replica_groups={{0,1}}, "
       "dimensions={0}\n ROOT "
       "%r = f32[8] all-gather-done(%s)",
       {"\"stablehlo.all_gather\"", "all_gather_dim = 0"}},
      {"%p = f32[4] parameter(0)\n ROOT %r = f32[2] reduce-scatter(%p), replica_groups={{0,1}}, dimensions={0}, "
       "to_apply=%add",
       {"scatter_dimension = 0"}},
      {"%p = f32[] parameter(0)\n ROOT %r = f32[1,1,1,1,1,1,1,1,2,3] rng(%p, %p), distribution=rng_uniform",
       {"dense<[1, 1, 1, 1, 1, 1, 1, 1, 2, 3]> : tensor<10xi64>", "distribution = UNIFORM"}},
      {"%p = f32[4] parameter(0)\n ROOT %r = f32[4] collective-permute(%p), source_target_pairs={{0,1},{1,0}}",
       {"source_target_pairs = dense<[[0, 1], [1, 0]]>"}},
      {"%p = f32[4] parameter(0)\n ROOT %r = f32[4] collective-broadcast(%p), replica_groups={{0,1}}",
       {"stablehlo.collective_broadcast"}},
      {"%t = token[] after-all()\n %i = ((f32[2], s32[]), token[]) infeed(%t), infeed_config=\"c\"\n %d = (f32[2], "
       "s32[]) "
       "get-tuple-element(%i), index=0\n %u = token[] get-tuple-element(%i), index=1\n ROOT %o = token[] outfeed(%d, "
       "%u), "
       "outfeed_shape=(f32[2], s32[]), outfeed_config=\"d\"",
       {"infeed_config = \"c\"", "outfeed_config = \"d\""}},
      {"%p = f32[2] parameter(0)\n %t = token[] after-all()\n %s = (f32[2], u32[], token[]) send(%p, %t), "
       "channel_id=5, "
       "is_host_transfer=true\n ROOT %d = token[] send-done(%s), channel_id=5, is_host_transfer=true",
       {"handle = 5, type = 2", "is_host_transfer = true"}},
      {"%t = token[] after-all()\n %s = (f32[2], u32[], token[]) recv(%t), channel_id=5, is_host_transfer=true\n ROOT "
       "%d = "
       "(f32[2], token[]) recv-done(%s), channel_id=5, is_host_transfer=true",
       {"handle = 5, type = 3", "(tensor<2xf32>, !stablehlo.token)"}},
      {"%p = f32[2] parameter(0)\n %s = ((f32[2]), f32[2], u32[]) custom-call-start(%p), "
       "async_execution_thread=\"host\", "
       "custom_call_target=\"t\"\n ROOT %d = f32[2] custom-call-done(%s)",
       {"stablehlo.custom_call @t(%arg0)"}},
      {"%p = f32[2,3]{0,1} parameter(0)\n ROOT %r = f32[6]{0} bitcast(%p)", {"dims = [1, 0]", "stablehlo.reshape"}},
      {"%p = f32[2] parameter(0)\n ROOT %r = f32[2] custom-call(%p), custom_call_target=\"t\", "
       "operand_layout_constraints={f32[2]{0}}, api_version=API_VERSION_TYPED_FFI, output_to_operand_aliasing={{}: (0, "
       "{})}, "
       "backend_config={a = 1 : i32, b = array<i64: 1, 2>, c = \"x\", d = {e = 2.5 : f32}}",
       {"api_version = 4 : i32", "array<i64: 1, 2>", "operand_layouts = [dense<[0]> : tensor<1xindex>]",
        "output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>"}},
      {"%p = (f32[2], (s32[], f32[])) parameter(0)\n ROOT %r = (s32[], f32[]) get-tuple-element(%p), index=1",
       {"stablehlo.get_tuple_element %arg0[1]", "tuple<tensor<i32>, tensor<f32>>"}},
      {"%p = f32[2] parameter(0), sharding={devices=[2]<=[2]}, frontend_attributes={k=\"v\"}\n ROOT %r = f32[2] "
       "sine(%p), "
       "result_accuracy={tolerance={atol=0.5,rtol=0,ulps=2}}, metadata={op_name=\"f/sin\" source_file=\"f.py\" "
       "source_line=3}",
       {"mhlo.sharding = \"{devices=[2]<=[2]}\"", "mhlo.frontend_attributes = {k = \"v\"}", "ulps = 2, mode",
        "loc(\"f/sin\"(\"f.py\":3:0))"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    std::unique_ptr<Module> m = Hlo(c.body, kAdd);
    ASSERT_NE(m, nullptr);
    m->config().num_partitions = 2;
    StablehloTextOptions options;
    options.locations = true;
    auto text = ExportStablehloText(*m, options);
    ASSERT_TRUE(text.ok()) << text.status();
    for (const char* part : c.parts) EXPECT_THAT(*text, HasSubstr(part));
    Counts counts;
    ExpectSameMeaning(*m, &counts);
  }
}

TEST(Export, EntryAttributes) {
  auto m = ParseHloModule(
      R"(HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }, entry_computation_layout={(f32[2,3]{0,1}, f32[2]{0})->(f32[2]{0}, f32[2,3]{0,1})}, num_partitions=2, frontend_attributes={a="b",backplane.parameter_memory_kinds=",pinned_host"}

ENTRY %e {
  %p = f32[2,3]{0,1} parameter(0)
  %q = f32[2]{0} parameter(1)
  ROOT %t = (f32[2]{0}, f32[2,3]{0,1}) tuple(%q, %p)
})");
  ASSERT_TRUE(m.ok()) << m.status();
  auto text = ExportStablehloText(**m);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("tf.aliasing_output = 1 : i32"));
  for (const std::string& program : {*text, *ExportPortableArtifact(**m), *ExportPortableArtifact(**m, {0, 9, 0})}) {
    auto again = ImportStablehlo(program);
    ASSERT_TRUE(again.ok()) << again.status();
    const ModuleConfig &a = (*m)->config(), &b = (*again)->config();
    EXPECT_EQ(a.input_output_aliases, b.input_output_aliases);
    EXPECT_EQ(a.buffer_donors, b.buffer_donors);
    EXPECT_EQ(a.num_partitions, b.num_partitions);
    EXPECT_EQ(b.parameter_memory_kinds[1], "pinned_host");
    EXPECT_EQ(b.frontend_attributes.at("a"), "b");
    EXPECT_EQ(b.parameter_layouts[0].ToString(true), "f32[2,3]{0,1}");
    EXPECT_EQ(b.result_layout.tuple_shapes(1).ToString(true), "f32[2,3]{0,1}");
  }
}

TEST(Export, WhatHasNoFormIsNamed) {
  const struct {
    const char *body, *message;
  } cases[] = {
      {"ROOT %r = u64[2] rng-get-and-update-state(), delta=1",
       "r = rng-get-and-update-state: StableHLO has no random state"},
      {"%p = f32[2]{0:T(128)} parameter(0)\n ROOT %r = f32[2,1]{1,0} bitcast(%p)", "r = bitcast: a bitcast of a tiled"},
      {"%p = s1[2] parameter(0)\n ROOT %r = s1[2] copy(%p)", "p: StableHLO has no type for s1[2]"},
      {"%p = f32[2] parameter(0)\n ROOT %r = f32[2] custom-call(%p), feature_group_count=2, custom_call_target=\"t\"",
       "StableHLO has no feature_group_count at custom calls"},
      {"%p = f32[2] parameter(0)\n ROOT %r = f32[2] custom-call(%p), window={size=2}, custom_call_target=\"t\"",
       "StableHLO has no window at custom calls"},
      {"%p = f32[2] parameter(0)\n ROOT %r = f32[2] custom-call(%p), custom_call_target=\"t\", "
       "operand_layout_constraints={f32[2]{0:T(128)}}",
       "StableHLO has no tiled layouts"},
      {"%p = f32[2] parameter(0)\n ROOT %r = f32[2] custom-call(%p), custom_call_target=\"t\", "
       "operand_layout_constraints={f32[2]{0:L(128)}}",
       "StableHLO has no tiled layouts"},
  };
  for (const auto& c : cases) {
    std::unique_ptr<Module> m = Hlo(c.body);
    ASSERT_NE(m, nullptr);
    const absl::Status s = ExportStablehloText(*m).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(s.message()), HasSubstr(c.message));
  }
  auto layouts = ParseHloModule(R"(HloModule m, entry_computation_layout={(f32[2,3]{1,0})->(f32[2,3]{0,1})}

ENTRY %e {
  %p = f32[2,3] parameter(0)
  ROOT %t = (f32[2,3]) tuple(%p)
})");
  ASSERT_TRUE(layouts.ok()) << layouts.status();
  EXPECT_THAT(std::string(ExportStablehloText(**layouts).status().message()),
              HasSubstr("the result: StableHLO has no layouts for the elements of a tuple"));
  auto replicas = ParseHloModule(R"(HloModule m, replica_count=2147483647

ENTRY e {
  p = f32[4] parameter(0)
  ROOT r = f32[4] all-to-all(p), dimensions={0}
})");
  ASSERT_TRUE(replicas.ok()) << replicas.status();
  EXPECT_THAT(std::string(ExportStablehloText(**replicas).status().message()),
              HasSubstr("r: a group of 2147483647 devices"));
  std::unique_ptr<Module> m = Hlo("%p = f32[2] parameter(0)\n ROOT %r = f32[2] tan(%p)");
  EXPECT_THAT(std::string(ExportPortableArtifact(*m, {1, 3, 0}).status().message()),
              HasSubstr("stablehlo.tan has no form in version 1.3.0"));
  EXPECT_TRUE(ExportPortableArtifact(*m, {1, 4, 0}).ok());
  EXPECT_FALSE(ExportPortableArtifact(*m, {0, 8, 0}).ok());
  EXPECT_FALSE(ExportPortableArtifact(*m, {1, 21, 0}).ok());
  EXPECT_EQ(*ParseStablehloVersion("1.9.3"), (StablehloVersion{1, 9, 3}));
  for (const char* bad : {"", "1", "1.2", "1.2.x", "1.2.3.4", "-1.2.3"})
    EXPECT_FALSE(ParseStablehloVersion(bad).ok()) << bad;
}

}  // namespace
}  // namespace backplane
