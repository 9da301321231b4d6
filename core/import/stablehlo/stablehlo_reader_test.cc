// The two readers against each other and against damage. testdata/ holds programs as portable artifacts of many
// versions and as pretty and generic text (generate.py makes them); whatever the form, the tree must be the same.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/import/stablehlo/bytecode_reader.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/source_build.h"
#include "core/import/stablehlo/text_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::stablehlo {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::filesystem::path DataDir() {
  return std::filesystem::path(BACKPLANE_SOURCE_DIR) / "core/import/stablehlo/testdata";
}

// Program name -> the files that hold it.
std::map<std::string, std::vector<std::filesystem::path>> Programs() {
  std::map<std::string, std::vector<std::filesystem::path>> out;
  for (const auto& entry : std::filesystem::directory_iterator(DataDir())) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(".bc") || name.ends_with(".mlir")) out[name.substr(0, name.find('.'))].push_back(entry.path());
  }
  for (auto& [name, files] : out) std::sort(files.begin(), files.end());
  return out;
}

absl::StatusOr<std::string> Dump(absl::string_view bytes, bool locations = true) {
  absl::StatusOr<std::unique_ptr<SourceModule>> m =
      LooksLikeBytecode(bytes) ? ReadPortableArtifact(bytes) : ParseStablehloText(bytes);
  if (!m.ok()) return m.status();
  DumpOptions options;
  options.locations = locations;
  return DumpSource(**m, options);
}

std::string DumpOrDie(absl::string_view bytes, bool locations = true) {
  absl::StatusOr<std::string> d = Dump(bytes, locations);
  EXPECT_TRUE(d.ok()) << d.status();
  return d.ok() ? *d : "";
}

std::string ErrorOf(absl::string_view bytes) {
  absl::StatusOr<std::string> d = Dump(bytes);
  EXPECT_FALSE(d.ok()) << *d;
  return d.ok() ? "" : std::string(d.status().message());
}

TEST(StablehloReader, EveryFormOfAProgramGivesOneTree) {
  auto programs = Programs();
  ASSERT_GE(programs.size(), 35u);
  int files_seen = 0;
  for (const auto& [name, files] : programs) {
    SCOPED_TRACE(name);
    ASSERT_GE(files.size(), 3u);
    const std::string plain = DumpOrDie(ReadFile(files[0]), false);
    EXPECT_THAT(plain, HasSubstr("func.return"));
    // JAX gives the arguments of a reduction's body one of two locations, by what it has traced before.
    std::set<std::string> located;
    for (const auto& file : files) {
      SCOPED_TRACE(file.filename().string());
      EXPECT_EQ(DumpOrDie(ReadFile(file), false), plain);
      // Pretty text has no place for the locations inside a reduction it abbreviates.
      if (!file.filename().string().ends_with(".pretty.mlir")) located.insert(DumpOrDie(ReadFile(file)));
      ++files_seen;
    }
    EXPECT_LE(located.size(), 2u);
  }
  EXPECT_GE(files_seen, 150);
}

TEST(StablehloReader, VersionIsTheProducers) {
  std::string bytes = ReadFile(DataDir() / "add.0.9.0.bc");
  auto m = ReadPortableArtifact(bytes);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ((*m)->producer, "StableHLO_v0.9.0");
  EXPECT_EQ((*m)->version[1], 9);
  EXPECT_EQ((*m)->FindSymbol("main")->name, "func.func");
  EXPECT_EQ((*m)->FindSymbol("other"), nullptr);
}

TEST(StablehloReader, LocationsAreResolved) {
  std::string bytes = ReadFile(DataDir() / "dot.1.17.0.bc");
  auto m = ReadPortableArtifact(bytes);
  ASSERT_TRUE(m.ok()) << m.status();
  const SourceOp* op = (*m)->FindSymbol("main")->regions[0].blocks[0].ops[0];
  ASSERT_EQ(op->name, "stablehlo.dot_general");
  SourceLocation at = (*m)->Location(op->location);
  EXPECT_THAT(at.name, HasSubstr("dot_general"));
  EXPECT_EQ(at.file, "generate.py");
  EXPECT_GT(at.line, 0);
}

// Bytecode with 60 levels of call sites, both parts of which are the next level.
constexpr absl::string_view kNestedCallSites =
    "4d4cef520d537461626c65484c4f5f76312e392e300001190501050901030b03070f131703a99307018b0b0f0f0f0f0f0f0f0f0f"
    "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f13"
    "13130f0b07131303090b0b0b0b03070f1707028603050d150505150707150909150b0b150d0d150f0f1511111513131515151517"
    "17151919151b1b151d1d151f1f152121152323152525152727152929152b2b152d2d152f2f153131153333153535153737153939"
    "153b3b153d3d153f3f154141154343154545154747154949154b4b154d4d154f4f155151155353155555155757155959155b5b15"
    "5d5d155f5f156161156363156565156767156969156b6b156d6d156f6f1571711573731575751577771579791d83851701030317"
    "01031517010343150303050f1f1701039117010505030123031d111d1329010511030103010904590501507b0107044903010505"
    "507d0307043503070f03037f000306810301030103068703010301070489030506030105010097150f0b05051511150f0b116275"
    "696c74696e0076686c6f006d6f64756c65006e65676174655f76310066756e635f76310072657475726e5f7631002d0078006d61"
    "696e007075626c6963000815050501010b8b8d8b8f91";

// Locations that name their parts twice in each level: a few hundred bytes, and up to 2^60 locations.
TEST(StablehloReader, SharedLocationsAreResolvedInShortTime) {
  for (bool fused : {false, true}) {
    std::string aliases = "#loc0 = loc(\"x\")\n";
    for (int i = 1; i <= 20; ++i) {
      const std::string part = absl::StrCat("#loc", i - 1);
      absl::StrAppend(&aliases, "#loc", i, " = loc(",
                      fused ? absl::StrCat("fused[", part, ", ", part, ", ", part, ", ", part, "]")
                            : absl::StrCat("callsite(", part, " at ", part, ")"),
                      ")\n");
    }
    const std::string text =
        absl::StrCat("func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n",
                     "%0 = stablehlo.negate %a : tensor<f32> loc(#loc20)\n", "return %0 : tensor<f32>\n}\n", aliases);
    auto m = ParseStablehloText(text);
    ASSERT_TRUE(m.ok()) << m.status();
    const SourceOp* op = (*m)->FindSymbol("main")->regions[0].blocks[0].ops[0];
    SourceLocation at = (*m)->Location(op->location);
    EXPECT_EQ(at.name, "x");
    EXPECT_EQ(at.file, "");
  }
  const std::string bytes = absl::HexStringToBytes(kNestedCallSites);
  auto m = ReadPortableArtifact(bytes);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ((*m)->Location((*m)->FindSymbol("main")->regions[0].blocks[0].ops[0]->location).name, "x");
}

TEST(StablehloReader, PrettyTextInFull) {
  constexpr absl::string_view kText = R"(
#loc1 = loc("f.py":3:4)
!t = tensor<2x?xf32, #stablehlo.bounds<?, 4>>
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: !t {tf.aliasing_output = 0 : i32}, %arg1: tensor<2xi4>) -> (!t {jax.result_info = "r\22\0A"}) {
    %c = stablehlo.constant dense<[-1, 7]> : tensor<2xi4>
    %0 = stablehlo.add %arg0, %arg0 : !t loc("jit(f)/add"(#loc1))
    %1:2 = "stablehlo.sort"(%c, %arg1) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<i4>, %b: tensor<i4>, %d: tensor<i4>, %e: tensor<i4>):
      %p = stablehlo.compare LT, %a, %b : (tensor<i4>, tensor<i4>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }) : (tensor<2xi4>, tensor<2xi4>) -> (tensor<2xi4>, tensor<2xi4>)
    return %0 : !t
  }
}
)";
  EXPECT_EQ(DumpOrDie(kText), R"(module "m" {mhlo.num_partitions = 1 : i32}
  func.func() {arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], function_type = (tensor<2x?xf32, #stablehlo.bounds<?, 4>>, tensor<2xi4>) -> tensor<2x?xf32, #stablehlo.bounds<?, 4>>, res_attrs = [{jax.result_info = "r\"\n"}], sym_name = "main", sym_visibility = "public"} : () -> ()
  region (%0: tensor<2x?xf32, #stablehlo.bounds<?, 4>>, %1: tensor<2xi4>)
    %2 = stablehlo.constant() {value = dense<0x0f07> : tensor<2xi4>} : () -> (tensor<2xi4>)
    %3 = stablehlo.add(%0, %0) : (tensor<2x?xf32, #stablehlo.bounds<?, 4>>, tensor<2x?xf32, #stablehlo.bounds<?, 4>>) -> (tensor<2x?xf32, #stablehlo.bounds<?, 4>>) loc("jit(f)/add" f.py:3:4)
    %4, %5 = stablehlo.sort(%2, %1) {dimension = 0 : i64, is_stable = false} : (tensor<2xi4>, tensor<2xi4>) -> (tensor<2xi4>, tensor<2xi4>)
    region (%6: tensor<i4>, %7: tensor<i4>, %8: tensor<i4>, %9: tensor<i4>)
      %10 = stablehlo.compare(%6, %7) {compare_type = NOTYPE, comparison_direction = LT} : (tensor<i4>, tensor<i4>) -> (tensor<i1>)
      stablehlo.return(%10) : (tensor<i1>) -> ()
    func.return(%3) : (tensor<2x?xf32, #stablehlo.bounds<?, 4>>) -> ()
)");
}

// What one op becomes, in a function of the given arguments.
std::string OpLine(absl::string_view arguments, absl::string_view op) {
  std::string text = absl::StrCat("func.func @f(", arguments, ") {\n", op, "\nreturn\n}\n");
  std::string dump = DumpOrDie(text, false);
  size_t at = dump.find("stablehlo.");
  if (at == std::string::npos) at = dump.find("sdy.");
  if (at == std::string::npos) at = dump.find("chlo.");
  return at == std::string::npos ? dump : dump.substr(at, dump.find('\n', at) - at);
}

TEST(StablehloReader, DefaultsAndStructsAreFlattened) {
  EXPECT_EQ(
      OpLine("%a: tensor<2x3xf32>, %b: tensor<3x4xf32>",
             "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [HIGH, DEFAULT] : "
             "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>"),
      "stablehlo.dot_general(%0, %1) {accumulation_type = none, allow_imprecise_accumulation = none, "
      "lhs_batching_dimensions = dense<0x> : tensor<0xi64>, lhs_component_count = none, lhs_contracting_dimensions = "
      "dense<splat 0x0100000000000000> : tensor<1xi64>, lhs_precision_type = none, num_primitive_operations = none, "
      "precision_config = [HIGH, DEFAULT], rhs_batching_dimensions = dense<0x> : tensor<0xi64>, rhs_component_count = "
      "none, rhs_contracting_dimensions = dense<splat 0x0000000000000000> : tensor<1xi64>, rhs_precision_type = none} "
      ": (tensor<2x3xf32>, tensor<3x4xf32>) -> (tensor<2x4xf32>)");
  EXPECT_EQ(
      OpLine("%a: tensor<4xf32>", "%0 = stablehlo.exponential %a : tensor<4xf32>"),
      "stablehlo.exponential(%0) {result_accuracy = {atol = 0x0 : f64, mode = DEFAULT, rtol = 0x0 : f64, ulps = 0 : "
      "i64}} : (tensor<4xf32>) -> (tensor<4xf32>)");
  EXPECT_EQ(OpLine("%a: tensor<4xf32>",
                   "%0 = stablehlo.custom_call @foo(%a) {api_version = 4 : i32, backend_config = {k = 1 : ui8}, "
                   "operand_layouts = [dense<0> : tensor<1xindex>]} : (tensor<4xf32>) -> tensor<4xf32>"),
            "stablehlo.custom_call(%0) {api_version = API_VERSION_TYPED_FFI, backend_config = {k = 1 : ui8}, "
            "call_target_name = \"foo\", called_computations = [], has_side_effect = false, operand_layouts = "
            "[dense<splat 0x0000000000000000> : tensor<1xindex>], output_operand_aliases = [], result_layouts = [], "
            "result_tilings = []} : (tensor<4xf32>) -> (tensor<4xf32>)");
  EXPECT_EQ(
      OpLine("%a: tensor<4xf32>", "%0 = sdy.sharding_constraint %a <@mesh,   [{\"a\",\"b\"},{?}]> : tensor<4xf32>"),
      "sdy.sharding_constraint(%0) {sharding = #sdy.sharding<@mesh, [{\"a\", \"b\"}, {?}]>} : (tensor<4xf32>) -> "
      "(tensor<4xf32>)");
  EXPECT_EQ(
      OpLine("%a: tensor<4xf32>", "%0:2 = chlo.top_k(%a, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)"),
      "chlo.top_k(%0) {k = 2 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)");
}

std::string Constant(absl::string_view value) { return OpLine("", absl::StrCat("%0 = stablehlo.constant ", value)); }

TEST(StablehloReader, Constants) {
  auto bytes = [](absl::string_view value) {
    std::string line = Constant(value);
    size_t at = line.find("dense<") + 6;
    return line.substr(at, line.find('>', at) - at);
  };
  EXPECT_EQ(bytes("dense<1.5> : tensor<2xf32>"), "splat 0x0000c03f");
  EXPECT_EQ(bytes("dense<[1.0, 0x7FC00000]> : tensor<2xf32>"), "0x0000803f0000c07f");
  EXPECT_EQ(bytes("dense<\"0x0000803F00000040\"> : tensor<2xf32>"), "0x0000803f00000040");
  EXPECT_EQ(bytes("dense<[[true, false], [false, true]]> : tensor<2x2xi1>"), "0x01000001");
  EXPECT_EQ(bytes("dense<\"0x0D\"> : tensor<5xi1>"), "splat 0x01");  // as many bytes as one element has
  EXPECT_EQ(bytes("dense<\"0x00\"> : tensor<5xi1>"), "splat 0x00");
  EXPECT_EQ(bytes("dense<\"0xFF\"> : tensor<i1>"), "splat 0x01");
  EXPECT_EQ(bytes("dense<\"0x0001010001\"> : tensor<5xi1>"), "0x0001010001");
  EXPECT_EQ(bytes("dense<\"0x0502\"> : tensor<10xi1>"), "0x01000100000000000001");  // packed, as old files have it
  EXPECT_EQ(bytes("dense<(1.0,-2.0)> : tensor<2xcomplex<f32>>"), "splat 0x0000803f000000c0");
  EXPECT_EQ(bytes("dense<[-1, 3]> : tensor<2xi4>"), "0x0f03");
  EXPECT_EQ(bytes("dense<-9223372036854775808> : tensor<i64>"), "splat 0x0000000000000080");
  EXPECT_EQ(bytes("dense<[1.0, 448.0]> : tensor<2xf8E4M3FN>"), "0x387e");
  EXPECT_EQ(bytes("dense<[1.0, -0.5]> : tensor<2xbf16>"), "0x803f00bf");
  EXPECT_EQ(bytes("dense<> : tensor<0x3xf32>"), "0x");
  EXPECT_EQ(bytes("dense<[1.0E-400, -1.0e+400]> : tensor<2xf64>"), "0x0000000000000000000000000000f0ff");
  EXPECT_THAT(Constant("dense_resource<w> : tensor<1xf32>\nreturn\n}\n{-#\n dialect_resources: { builtin: { w: "
                       "\"0x040000000000803F\" } }\n#-}\nfunc.func @g() {\n"
                       "// "),
              HasSubstr("dense<splat 0x0000803f>"));
}

TEST(StablehloReader, TextErrorsNameLineAndColumn) {
  EXPECT_THAT(ErrorOf("module {\n  func.func @f() {\n    %0 = stablehlo.nonsense : tensor<f32>\n"),
              HasSubstr("3:10: unknown op stablehlo.nonsense"));
  EXPECT_THAT(ErrorOf("func.func @f() {\n return %x : tensor<f32>\n}"), HasSubstr("2:9: value %x is not defined"));
  EXPECT_THAT(ErrorOf("func.func @f(%a: tensor<f32>) {\n return %a : tensor<f64>\n}"),
              HasSubstr("value %a is tensor<f32>, used as tensor<f64>"));
  EXPECT_THAT(ErrorOf("func.func @f() {\n %0 = \"tosa.add\"() : () -> tensor<f32>\n return\n}"),
              HasSubstr("unknown op tosa.add"));
  EXPECT_THAT(ErrorOf("func.func @f() {\n %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<2xi32>\n return\n}"),
              HasSubstr("list of 3 elements, dimension 0 is 2"));
  EXPECT_THAT(ErrorOf("func.func @f() {\n %0 = stablehlo.constant dense<300> : tensor<2xi8>\n return\n}"),
              HasSubstr("does not fit in 8 bits"));
  for (const char* number : {"-129", "-200", "0x100", "99999999999999999999"}) {
    EXPECT_NE(ErrorOf(absl::StrCat("func.func @f() {\n %0 = stablehlo.constant dense<", number,
                                   "> : tensor<2xi8>\n return\n}")),
              "")
        << number;
  }
  EXPECT_THAT(ErrorOf("func.func @f(%a: tensor<f32>) {\n %0 = \"stablehlo.iota\"() : () -> tensor<2xf32>\n return\n}"),
              HasSubstr("attribute iota_dimension is missing"));
  EXPECT_THAT(ErrorOf("func.func @f(%a: tensor<f32>) {\n %0 = stablehlo.add %a : tensor<f32>\n return\n}"),
              HasSubstr("1 operands, expected 2"));
  EXPECT_THAT(ErrorOf("func.func @f() {return}\nfunc.func @f() {return}"), HasSubstr("symbol @f is defined twice"));
  EXPECT_THAT(ErrorOf("func.func @f() {\n^bb0:\n return\n^bb1:\n return }"), HasSubstr("second block"));
  EXPECT_THAT(ErrorOf("!a = !b\n!b = !a\nfunc.func @f(%x: !a) {return}"), HasSubstr("refers to itself"));
  EXPECT_THAT(ErrorOf("not a program"), HasSubstr("1:1: unknown op not"));
}

std::string Repeat(absl::string_view s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) absl::StrAppend(&out, s);
  return out;
}

TEST(StablehloReader, NestingIsCapped) {
  EXPECT_THAT(ErrorOf(absl::StrCat("func.func @f(%a: ", Repeat("tuple<", 100000))),
              HasSubstr("types are nested deeper"));
  EXPECT_THAT(ErrorOf(absl::StrCat("module attributes {a = ", Repeat("[", 100000))),
              HasSubstr("attributes are nested deeper"));
  EXPECT_THAT(ErrorOf(absl::StrCat("module attributes {a = ", Repeat("{b = ", 100000))),
              HasSubstr("attributes are nested deeper"));
  EXPECT_THAT(ErrorOf(absl::StrCat("func.func @f(%a: tensor<i32>) {", Repeat("\"stablehlo.case\"(%a) ({", 100000))),
              HasSubstr("regions are nested deeper"));
  EXPECT_THAT(ErrorOf(absl::StrCat("func.func @f(%a: tensor<", Repeat("1x", 100000), "f32>) {return}")),
              HasSubstr("rank above"));
  // Sharing makes a few lines mean more than memory holds.
  std::string bomb = "!t0 = tuple<tensor<f32>, tensor<f32>>\n";
  for (int i = 1; i < 25; ++i) absl::StrAppend(&bomb, "!t", i, " = tuple<!t", i - 1, ", !t", i - 1, ">\n");
  EXPECT_THAT(ErrorOf(absl::StrCat(bomb, "func.func @f(%a: !t24) {return}")), HasSubstr("too large when written out"));
}

TEST(StablehloReader, BytecodeThatIsNoArtifactIsRefusedWithTheReason) {
  EXPECT_THAT(ErrorOf(absl::string_view("ML\xEFR\x0DMLIR23.0.0git\0abc", 22)), HasSubstr("plain MLIR bytecode"));
  EXPECT_THAT(ErrorOf(absl::string_view("ML\xEFR\x0DStableHLO_vx.y\0", 20)), HasSubstr("holds no version"));
  EXPECT_THAT(ErrorOf(absl::string_view("ML\xEFR\x0F", 5)), HasSubstr("bytecode layout version 7"));
  std::string bytes = ReadFile(DataDir() / "add.1.17.0.bc");
  std::string other = absl::StrReplaceAll(bytes, {{"add_v1", "add_v9"}});
  absl::StatusOr<std::string> d = Dump(other);
  ASSERT_FALSE(d.ok());
  EXPECT_EQ(d.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(d.status().message()), HasSubstr("unknown op vhlo.add_v9 at byte"));
  EXPECT_THAT(std::string(d.status().message()), HasSubstr("StableHLO_v1.17.0"));
}

TEST(StablehloReader, OpTableIsInOrder) {
  EXPECT_GE(AllVhloForms().size(), 145u);
  for (const OpForm& f : AllVhloForms()) {
    std::vector<absl::string_view> names = SplitNames(f.attributes);
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end())) << f.name;
    EXPECT_EQ(FindVhloForm(absl::StrCat(f.name, "_v", static_cast<int>(f.version))), &f);
    EXPECT_GE(FindNewestForm(SourceOpName(f))->version, f.version);
  }
  EXPECT_EQ(FindVhloForm("add_v2"), nullptr);
}

TEST(StablehloReader, EveryTruncationIsAnError) {
  int cut = 0;
  for (const auto& [name, files] : Programs()) {
    for (const auto& file : files) {
      std::string bytes = ReadFile(file);
      bool text = file.extension() == ".mlir";
      // Text is cut at fewer places: every prefix costs a parse of all before it.
      size_t step = text ? std::max<size_t>(1, bytes.size() / 60) : bytes.size() > 4000 ? 7 : 1;
      for (size_t n = 1; n < bytes.size(); n += step) {
        absl::StatusOr<std::string> d = Dump(absl::string_view(bytes).substr(0, n), false);
        // A text cut among the aliases at its end, or before its first word, is still a program.
        if (!text) {
          ASSERT_FALSE(d.ok()) << file << " cut at " << n;
        }
        ++cut;
      }
    }
  }
  EXPECT_GT(cut, 100000);
}

TEST(StablehloReader, DamageNeverCrashes) {
  std::mt19937 random(20240607);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int decoded = 0, refused = 0;
  for (const auto& [name, files] : Programs()) {
    for (const auto& file : files) {
      const std::string good = ReadFile(file);
      for (int trial = 0; trial < 40; ++trial) {
        std::string bytes = good;
        int changes = 1 + static_cast<int>(below(4));
        for (int c = 0; c < changes; ++c) {
          size_t at = below(bytes.size());
          switch (below(4)) {
            case 0:
              bytes[at] = static_cast<char>(random());
              break;
            case 1:
              bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
              break;
            case 2:
              bytes.erase(at, 1 + below(std::min<size_t>(8, bytes.size() - at)));
              break;
            default:
              bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(16)));
              break;
          }
          if (bytes.empty()) bytes = "x";
        }
        absl::StatusOr<std::string> d = Dump(bytes);
        d.ok() ? ++decoded : ++refused;
        if (!d.ok()) {
          EXPECT_FALSE(d.status().message().empty());
        }
      }
    }
  }
  EXPECT_GT(refused, 3000);
  EXPECT_GT(decoded, 300);
}

}  // namespace
}  // namespace backplane::stablehlo
