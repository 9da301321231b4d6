// What is exported reads back: the same tree for StableHLO programs, the same values for HLO modules.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
      out.SetFromDouble(i, static_cast<double>(static_cast<int>(rng() % 2001) - 1000) / 256);
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

}  // namespace
}  // namespace backplane
