// Compiles programs, and serializes and loads executables.
#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "base/wire.h"
#include "core/import/compile_options.h"
#include "core/import/import.h"
#include "core/passes/passes.h"
#include "sdk/shim/compile_cache.h"
#include "sdk/shim/dump.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

constexpr absl::string_view kExecutableMagic = "backplane.executable.1";
constexpr absl::string_view kHlo = "hlo";
constexpr absl::string_view kHloWithConfig = "hlo_with_config";

absl::StatusOr<CompileOptions> ReadOptions(const char* bytes, size_t size) {
  if (size > 0) BP_REQUIRE(bytes);
  return ParseCompileOptions(absl::string_view(bytes == nullptr ? "" : bytes, size));
}

// A serialized HloModuleProto contains layouts of the entry computation. As in XLA, the compile options determine the
// layouts of arguments and results instead.
void ClearEntryLayouts(Module* module) {
  module->config().parameter_layouts.clear();
  module->config().result_layout = Shape();
}

// Compile options of the host override those of the program.
absl::Status ApplyOptions(const CompileOptions& options, Module* module) {
  ModuleConfig& config = module->config();
  config.num_replicas = options.num_replicas;
  config.num_partitions = options.num_partitions;
  config.use_spmd_partitioning |= options.use_spmd_partitioning;
  config.use_shardy_partitioner |= options.use_shardy_partitioner;
  const Computation* entry = module->entry();
  if (entry == nullptr) return absl::InvalidArgumentError("compile: the program has no entry");
  if (!options.argument_layouts.empty()) {
    const auto& parameters = entry->parameters();
    if (options.argument_layouts.size() != parameters.size()) {
      return absl::InvalidArgumentError(absl::StrCat("compile: ", options.argument_layouts.size(),
                                                     " argument layouts, the program takes ", parameters.size(),
                                                     " arguments"));
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!(options.argument_layouts[i] == parameters[i]->shape())) {
        return absl::InvalidArgumentError(absl::StrCat("compile: argument layout ", i, " is for ",
                                                       options.argument_layouts[i].ToString(), ", the argument is ",
                                                       parameters[i]->shape().ToString()));
      }
    }
    config.parameter_layouts = options.argument_layouts;
  }
  if (options.result_layout.element_type() != PrimitiveType::kInvalid) {
    if (!(options.result_layout == entry->root()->shape())) {
      return absl::InvalidArgumentError(absl::StrCat("compile: result layout is for ", options.result_layout.ToString(),
                                                     ", the result is ", entry->root()->shape().ToString()));
    }
    config.result_layout = options.result_layout;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Executable>> DeserializeExecutable(absl::string_view bytes,
                                                                        const Topology& topology) {
  absl::string_view magic, platform, payload;
  uint64_t hash = 0;
  WireReader in(bytes);
  while (in.Next()) {
    switch (in.field) {
      case 1:
        magic = in.bytes;
        break;
      case 2:
        platform = in.bytes;
        break;
      case 3:
        payload = in.bytes;
        break;
      case 4:
        hash = in.value;
        break;
      default:
        break;
    }
    if (in.field == 1 && magic != kExecutableMagic) break;
  }
  if (magic != kExecutableMagic)
    return absl::InvalidArgumentError("deserialize: these bytes are no serialized executable of ours");
  if (!in.ok() || hash != Fnv1a64(payload))
    return absl::DataLossError("deserialize: the bytes were damaged or cut short");
  if (platform != topology.platform_name) {
    return absl::FailedPreconditionError(
        absl::StrCat("deserialize: compiled for platform ", platform, ", this is ", topology.platform_name));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, Plugin().backend->Deserialize(payload, topology));
  return std::shared_ptr<const Executable>(std::move(executable));
}

absl::StatusOr<std::shared_ptr<const Executable>> CompileAnew(const ProgramBytes& program,
                                                              const CompileOptions& options, const Topology& topology) {
  std::shared_ptr<Executable> executable;
  if (Plugin().backend->AcceptsProgramBytes(program.format)) {
    ASSIGN_OR_RETURN(executable, Plugin().backend->CompileBytes(program, options, topology));
    return executable;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, ImportProgram(program.format, program.bytes));
  if (program.format == kHlo && !IsHloText(program.bytes)) ClearEntryLayouts(module.get());
  RETURN_IF_ERROR(TransformProgram(&module));
  RETURN_IF_ERROR(RunPass(DropLayouts(), module.get()).status());
  RETURN_IF_ERROR(ApplyOptions(options, module.get()));
  ASSIGN_OR_RETURN(executable, Plugin().backend->Compile(std::move(module), options, topology));
  return executable;
}

// The executable of an earlier compilation; null if there is none that can be read.
std::shared_ptr<const Executable> FindStored(const CompileCache& cache, const std::string& key,
                                             const Topology& topology) {
  const std::optional<std::string> bytes = cache.Find(key);
  if (!bytes) return nullptr;
  absl::StatusOr<std::shared_ptr<Executable>> executable = Plugin().backend->Deserialize(*bytes, topology);
  if (executable.ok()) return *std::move(executable);
  cache.Remove(key);
  return nullptr;
}

// The program runs without being stored, so errors are left alone: executables that cannot be serialized, full disks.
void Store(const CompileCache& cache, const std::string& key, const Executable& executable) {
  const absl::StatusOr<std::string> bytes = executable.Serialize();
  if (bytes.ok()) cache.Insert(key, *bytes).IgnoreError();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Executable>> CompileProgram(const PJRT_Program* program, const char* options,
                                                                 size_t options_size,
                                                                 const PJRT_TopologyDescription& description) {
  const Topology& topology = description.topology;
  ASSIGN_OR_RETURN(PJRT_Program in, ReadStruct("PJRT_Program", program, PJRT_Program_STRUCT_SIZE));
  BP_REQUIRE(in.format);
  if (in.code_size > 0) BP_REQUIRE(in.code);
  ASSIGN_OR_RETURN(CompileOptions parsed, ReadOptions(options, options_size));
  const absl::string_view format(in.format, in.format_size), code(in.code == nullptr ? "" : in.code, in.code_size);
  const CompileCache* cache = description.compile_cache.get();
  std::string key;
  if (cache != nullptr) key = CompileCacheKey({format, code}, parsed, topology);
  if (key.empty()) cache = nullptr;
  std::shared_ptr<const Executable> executable;
  if (cache != nullptr) executable = FindStored(*cache, key, topology);
  if (executable == nullptr) {
    ASSIGN_OR_RETURN(executable, CompileAnew({format, code}, parsed, topology));
    if (cache != nullptr) Store(*cache, key, *executable);
  }
  RETURN_IF_ERROR(DumpProgram(*executable, parsed, topology.platform_name));
  return executable;
}

absl::Status Client_Compile(PJRT_Client_Compile_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.program);
  ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable,
                   CompileProgram(a.program, a.compile_options, a.compile_options_size, a.client->state->topology));
  CompileOptions options = executable->options();
  ASSIGN_OR_RETURN(a.executable, LoadExecutable(a.client->state, std::move(executable), std::move(options)));
  return absl::OkStatus();
}

absl::Status Compile(PJRT_Compile_Args& a) {
  BP_REQUIRE(a.topology);
  BP_REQUIRE(a.program);
  ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable,
                   CompileProgram(a.program, a.compile_options, a.compile_options_size, *a.topology));
  a.executable = new PJRT_Executable(std::move(executable));
  return absl::OkStatus();
}

absl::Status Client_Load(PJRT_Client_Load_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.executable);
  CompileOptions options = a.executable->executable->options();
  if (a.compile_options_size > 0) {
    ASSIGN_OR_RETURN(options, ReadOptions(a.compile_options, a.compile_options_size));
  }
  ASSIGN_OR_RETURN(a.loaded_executable, LoadExecutable(a.client->state, a.executable->executable, std::move(options)));
  return absl::OkStatus();
}

absl::Status Executable_Serialize(PJRT_Executable_Serialize_Args& a) {
  BP_REQUIRE(a.executable);
  ASSIGN_OR_RETURN(std::string payload, a.executable->executable->Serialize());
  WireWriter out;
  out.Bytes(1, kExecutableMagic);
  out.Bytes(2, Plugin().backend->platform_name());
  out.Bytes(3, payload);
  out.Varint(4, Fnv1a64(payload));
  auto* holder = new OwnedBytes{out.Take()};
  a.serialized_bytes = holder->bytes.data();
  a.serialized_bytes_size = holder->bytes.size();
  a.serialized_executable = reinterpret_cast<PJRT_SerializedExecutable*>(holder);
  a.serialized_executable_deleter = &DeleteOwnedBytes<PJRT_SerializedExecutable>;
  return absl::OkStatus();
}

absl::Status Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.serialized_executable);
  ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable,
                   DeserializeExecutable(absl::string_view(a.serialized_executable, a.serialized_executable_size),
                                         a.client->state->topology.topology));
  CompileOptions options = executable->options();
  if (a.overridden_serialized_compile_options != nullptr && a.overridden_serialized_compile_options_size > 0) {
    ASSIGN_OR_RETURN(
        options, ReadOptions(a.overridden_serialized_compile_options, a.overridden_serialized_compile_options_size));
  }
  RETURN_IF_ERROR(DumpProgram(*executable, options, a.client->state->topology.topology.platform_name));
  ASSIGN_OR_RETURN(a.loaded_executable, LoadExecutable(a.client->state, std::move(executable), std::move(options)));
  return absl::OkStatus();
}

absl::Status Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args& a) {
  BP_REQUIRE(a.executable);
  auto* holder = new OwnedBytes{SerializeCompileOptions(a.executable->executable->options())};
  a.serialized_bytes = holder->bytes.data();
  a.serialized_bytes_size = holder->bytes.size();
  a.serialized_compile_options = reinterpret_cast<PJRT_SerializedCompileOptions*>(holder);
  a.serialized_compile_options_deleter = &DeleteOwnedBytes<PJRT_SerializedCompileOptions>;
  return absl::OkStatus();
}

absl::Status Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args& a) {
  BP_REQUIRE(a.executable);
  BP_REQUIRE(a.program);
  if (a.program->struct_size < PJRT_Program_STRUCT_SIZE) {
    return SizeError("PJRT_Program", a.program->struct_size, PJRT_Program_STRUCT_SIZE);
  }
  ASSIGN_OR_RETURN(const std::string* bytes, a.executable->optimized_program());
  a.program->format = kHloWithConfig.data();
  a.program->format_size = kHloWithConfig.size();
  if (a.program->code != nullptr) {
    if (a.program->code_size < bytes->size()) {
      return absl::InvalidArgumentError(absl::StrCat("optimized program: room for ", a.program->code_size,
                                                     " bytes, the program has ", bytes->size()));
    }
    std::memcpy(a.program->code, bytes->data(), bytes->size());
  }
  a.program->code_size = bytes->size();
  return absl::OkStatus();
}

}  // namespace backplane::shim
