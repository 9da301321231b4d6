#include "tests/mutation/readers.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "conformance/kit/case_file.h"
#include "core/import/compile_options.h"
#include "core/import/export/export.h"
#include "core/import/import.h"
#include "core/import/proto/hlo_proto.h"
#include "core/passes/passes.h"
#include "core/text/hlo_parser.h"
#include "core/text/hlo_printer.h"
#include "core/types/status_macros.h"
#include "sdk/cli/npy.h"
#include "sdk/host/json.h"
#include "sdk/layers/record/session_file.h"
#include "sdk/layers/record/slice.h"
#include "tests/mutation/recordings.h"

namespace backplane::mutation {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// ---- Programs

// What every plugin and tool does with a parsed program.
absl::Status UseModule(absl::StatusOr<std::unique_ptr<Module>> module) {
  if (!module.ok()) return module.status();
  RETURN_IF_ERROR(VerifyModule(**module));
  PrintModule(**module);
  SerializeHloModule(**module).IgnoreError();
  ExportPortableArtifact(**module).IgnoreError();
  auto pipeline = MakeCommonPipeline();
  pipeline->set_verify(true);
  absl::StatusOr<bool> ran = pipeline->Run(module->get());
  // A pass that invalidates a valid program is our defect and not the input's.
  if (!ran.ok() && ran.status().code() == absl::StatusCode::kInternal) {
    std::fprintf(stderr, "%s\n", ran.status().ToString().c_str());
    std::abort();
  }
  return ran.status();
}

absl::Status ReadHloText(absl::string_view bytes) { return UseModule(ParseHloModule(bytes)); }
absl::Status ReadStablehlo(absl::string_view bytes) { return UseModule(ImportProgram("mlir", bytes)); }
absl::Status ReadHloProto(absl::string_view bytes) { return UseModule(ImportProgram("hlo", bytes)); }

// Programs of the case files, a few from each.
std::vector<conformance::Case> SomeCases(const std::string& source) {
  constexpr int kOfOneFile = 6;
  auto cases = conformance::ReadCaseFolder(source + "/conformance/cases/ops");
  std::vector<conformance::Case> some;
  if (!cases.ok()) return some;
  int taken = 0;
  for (conformance::Case& c : *cases) {
    if (!some.empty() && some.back().file != c.file) taken = 0;
    if (c.fails || (!some.empty() && some.back().program == c.program) || ++taken > kOfOneFile) continue;
    some.push_back(std::move(c));
  }
  return some;
}

// Each program of the case files as a module in another form. Skips programs that the form cannot express.
template <typename Write>
std::vector<std::string> SeedsAs(const std::string& source, const Write& write) {
  std::vector<std::string> seeds;
  for (const conformance::Case& c : SomeCases(source)) {
    auto module = ImportProgram("mlir", c.program);
    if (!module.ok()) continue;
    if (absl::StatusOr<std::string> bytes = write(**module); bytes.ok()) seeds.push_back(*std::move(bytes));
  }
  return seeds;
}

std::vector<std::string> HloTextSeeds(const std::string& source) {
  std::vector<std::string> seeds =
      SeedsAs(source, [](const Module& m) { return absl::StatusOr<std::string>(PrintModule(m)); });
  for (const auto& file : std::filesystem::directory_iterator(source + "/core/text/testdata")) {
    if (file.is_regular_file() && file.file_size() < 65536) seeds.push_back(ReadAll(file.path()));
  }
  std::sort(seeds.begin(), seeds.end());
  return seeds;
}
std::vector<std::string> StablehloTextSeeds(const std::string& source) {
  std::vector<std::string> seeds;
  for (const conformance::Case& c : SomeCases(source)) {
    if (c.format == conformance::ProgramFormat::kStablehlo) seeds.push_back(c.program);
  }
  std::vector<std::string> pretty = SeedsAs(source, [](const Module& m) { return ExportStablehloText(m); });
  seeds.insert(seeds.end(), pretty.begin(), pretty.end());
  return seeds;
}
std::vector<std::string> BytecodeSeeds(const std::string& source) {
  return SeedsAs(source, [](const Module& m) { return ExportPortableArtifact(m); });
}
std::vector<std::string> HloProtoSeeds(const std::string& source) {
  return SeedsAs(source, [](const Module& m) { return SerializeHloModule(m); });
}

// ---- Compile options

absl::Status ReadOptions(absl::string_view bytes) {
  auto options = ParseCompileOptions(bytes);
  if (!options.ok()) return options.status();
  SerializeCompileOptions(*options);
  options->serialized.clear();
  SerializeCompileOptions(*options);
  return absl::OkStatus();
}
std::vector<std::string> OptionSeeds(const std::string&) {
  CompileOptions plain, full;
  full.num_replicas = 2;
  full.num_partitions = 4;
  full.device_assignment = {0, 1, 2, 3, 4, 5, 6, 7};
  full.device_ordinal = 3;
  full.use_spmd_partitioning = full.use_shardy_partitioner = true;
  full.argument_layouts = {Shape(PrimitiveType::kF32, {2, 3}), Shape::Scalar(PrimitiveType::kS8)};
  full.result_layout = Shape(PrimitiveType::kBF16, {7});
  full.allow_spmd_sharding_propagation_to_output = {true, false};
  full.env_option_overrides = {{"verify_passes", "true"}, {"threads", "2"}};
  return {SerializeCompileOptions(plain), SerializeCompileOptions(full)};
}

// ---- Arrays

absl::Status ReadNpy(absl::string_view bytes) {
  auto array = cli::ParseNpy(bytes);
  if (!array.ok()) return array.status();
  cli::FormatNpy(*array).IgnoreError();
  return absl::OkStatus();
}
absl::Status ReadNpz(absl::string_view bytes) {
  auto members = cli::ParseZip(bytes);
  if (!members.ok()) return members.status();
  for (const auto& [name, member] : *members) cli::ParseNpy(member).IgnoreError();
  return absl::OkStatus();
}
std::vector<std::string> NpySeeds(const std::string&) {
  std::vector<std::string> seeds;
  for (const char* type : {"<f4", "|u1", "<i8", "<c16", "|b1", "|V2"}) {
    for (const char* shape : {"()", "(3,)", "(2, 2)", "(0, 5)"}) {
      std::string head = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
      head.resize((head.size() + 1 + 10 + 63) / 64 * 64 - 11, ' ');
      head += '\n';
      const auto size = static_cast<uint16_t>(head.size());
      std::string file("\x93NUMPY\x01\x00", 8);
      file += {static_cast<char>(size & 255), static_cast<char>(size >> 8)};
      seeds.push_back(file + head + std::string(64, '\x3f'));
    }
  }
  return seeds;
}
std::vector<std::string> NpzSeeds(const std::string& source) {
  const std::vector<std::string> arrays = NpySeeds(source);
  std::vector<std::string> seeds;
  for (size_t i = 0; i + 2 < arrays.size(); i += 2) {
    if (auto zip = cli::FormatZip({{"a.npy", arrays[i]}, {"b.npy", arrays[i + 1]}}); zip.ok()) seeds.push_back(*zip);
  }
  return seeds;
}

// ---- Recorded sessions

absl::Status ReadSessionFile(const std::string& path) {
  auto session = record::SessionReader::Open(path);
  if (!session.ok()) return session.status();
  for (size_t i = 0; i < (*session)->size(); ++i) {
    auto operation = (*session)->At(i);
    if (!operation.ok()) return operation.status();
    record::EncodeOperation(*operation);
    for (const record::BlobRef& blob : operation->blobs) (*session)->ReadBlob(blob, 1 << 20).IgnoreError();
  }
  return record::CollectLinks(**session).status();
}
absl::Status ReadRecording(absl::string_view bytes) { return WithRecordingFile(bytes, ReadSessionFile); }
std::vector<std::string> RecordingSeeds(const std::string&) {
  const std::string path = std::filesystem::temp_directory_path() / absl::StrCat("mutation_seed_", getpid(), ".bprec");
  {
    auto writer = record::SessionWriter::Create(path, {});
    if (!writer.ok()) return {};
    (*writer)->Describe({.plugin = "plugin.so", .api_minor = 114, .host = "host"});
    record::Operation client;
    client.kind = record::Kind::kClient;
    client.makes = {1};
    client.devices = {{0, 0, 0, true, "cpu", {0}, 0}};
    client.memories = {{0, "device"}};
    client.options = {{"count", int64_t{2}}, {"list", std::vector<int64_t>{1, -2}}};
    (*writer)->Add(client);
    for (uint64_t i = 0; i < 4; ++i) {
      record::Operation put;
      put.kind = record::Kind::kFromHost;
      put.uses = {1};
      put.makes = {10 + i, 20 + i};
      put.type = PJRT_Buffer_Type_F32;
      put.dims = {2, 3};
      put.byte_strides = {4, 8};
      put.layout.emplace();
      put.layout->minor_to_major = {1, 0};
      put.layout->tiles = {{8, 128}};
      put.blobs = {(*writer)->AddBlob(std::string(24, static_cast<char>('a' + i)))};
      put.device = 0;
      (*writer)->Add(put);
    }
    record::Operation execute;
    execute.kind = record::Kind::kExecute;
    execute.uses = {30, 10, 11};
    execute.makes = {40, 41};
    execute.numbers = {1, 2, 1, 1, 0};
    execute.donated = {0};
    (*writer)->Add(execute);
    (*writer)->Finish();
  }
  std::vector<std::string> seeds = {ReadAll(path)};
  std::filesystem::remove(path);
  return seeds;
}

// ---- Our own text formats

absl::Status ReadCases(absl::string_view bytes) { return conformance::ParseCases(bytes, "mutated").status(); }
std::vector<std::string> CaseSeeds(const std::string& source) {
  std::vector<std::string> seeds;
  for (const char* name : {"add", "dot", "while", "convolution", "all_reduce", "infeed", "sort"}) {
    const std::string text = ReadAll(absl::StrCat(source, "/conformance/cases/ops/", name, ".case"));
    if (!text.empty()) seeds.push_back(text.substr(0, 4096));
  }
  return seeds;
}
absl::Status ReadJson(absl::string_view bytes) { return host::Json::Parse(bytes).status(); }
std::vector<std::string> JsonSeeds(const std::string&) {
  return {R"({"library_path": "a/b.so", "create_options": {"n": 4, "list": [1, -2, 3.5e7], "on": true, "none": null}})",
          R"([{"a": "\u00e4\ud83d\ude00\n\\"}, [], {}, [[[1]]], -0.0, 1e308])"};
}

constexpr Reader kReaders[] = {
    {"hlo-text", true, ReadHloText, HloTextSeeds, nullptr, nullptr, nullptr, "mlir"},
    {"stablehlo-text", true, ReadStablehlo, StablehloTextSeeds, nullptr, nullptr, nullptr, "mlir"},
    {"stablehlo-bytecode", false, ReadStablehlo, BytecodeSeeds, nullptr, nullptr, nullptr, "mlir"},
    {"hlo-proto", false, ReadHloProto, HloProtoSeeds, nullptr, nullptr, nullptr, "hlo"},
    {"compile-options", false, ReadOptions, OptionSeeds},
    {"npy", true, ReadNpy, NpySeeds},
    {"npz", false, ReadNpz, NpzSeeds},
    {"recording", false, ReadRecording, RecordingSeeds, MutateRecording, ReplayRecording, RecordedSeeds},
    {"case-file", true, ReadCases, CaseSeeds},
    {"json", true, ReadJson, JsonSeeds},
};

}  // namespace

absl::Span<const Reader> AllReaders() { return kReaders; }

const Reader* FindReader(absl::string_view name) {
  for (const Reader& reader : kReaders) {
    if (name == reader.name) return &reader;
  }
  return nullptr;
}

}  // namespace backplane::mutation
