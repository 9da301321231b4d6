// The properties of executables, and their destruction.
#include <set>

#include "absl/strings/str_replace.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

PJRT_Executable* Two(Kit& k) { return GetExecutable(k, Compile(k, kTwoOutputs)); }

void Name(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_Name);
  a.executable = Two(k);
  KIT_OK(k, PJRT_Executable_Name, a);
  k.Require(a.executable_name != nullptr && a.executable_name_size > 0, "the executable has no name");
  k.Note(std::string(a.executable_name, a.executable_name_size));
}

void Counts(Kit& k) {
  PJRT_Executable* two = Two(k);
  KIT_ARGS(k, r, PJRT_Executable_NumReplicas);
  r.executable = two;
  KIT_OK(k, PJRT_Executable_NumReplicas, r);
  KIT_ARGS(k, p, PJRT_Executable_NumPartitions);
  p.executable = two;
  KIT_OK(k, PJRT_Executable_NumPartitions, p);
  KIT_ARGS(k, o, PJRT_Executable_NumOutputs);
  o.executable = two;
  KIT_OK(k, PJRT_Executable_NumOutputs, o);
  k.Require(r.num_replicas == 1 && p.num_partitions == 1 && o.num_outputs == 2,
            "a program of 1 replica, 1 partition and 2 outputs says ", r.num_replicas, ", ", p.num_partitions, " and ",
            o.num_outputs);
}

void OutputTypes(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_OutputElementTypes);
  a.executable = Two(k);
  KIT_OK(k, PJRT_Executable_OutputElementTypes, a);
  k.Require(a.num_output_types == 2, "two outputs have ", a.num_output_types, " element types");
  k.Require(a.output_types[0] == PJRT_Buffer_Type_S32 && a.output_types[1] == PJRT_Buffer_Type_F32,
            "the outputs s32 and f32 are said to be ", host::ElementTypeName(a.output_types[0]), " and ",
            host::ElementTypeName(a.output_types[1]));
}

void OutputDims(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_OutputDimensions);
  a.executable = Two(k);
  KIT_OK(k, PJRT_Executable_OutputDimensions, a);
  k.Require(a.num_outputs == 2 && a.dim_sizes[0] == 1 && a.dim_sizes[1] == 1,
            "two vectors are said to have other ranks");
  k.Require(a.dims[0] == 2 && a.dims[1] == 4, "the outputs [2] and [4] are said to be [", a.dims[0], "] and [",
            a.dims[1], "]");
}

void MemoryKinds(Kit& k) {
  PJRT_Executable* two = Two(k);
  std::set<std::string> known;
  for (PJRT_Memory* m : GetMemories(k, k.device())) known.insert(GetKind(k, m));
  KIT_ARGS(k, a, PJRT_Executable_OutputMemoryKinds);
  a.executable = two;
  KIT_OK(k, PJRT_Executable_OutputMemoryKinds, a);
  k.Require(a.num_outputs == 2, "two outputs have ", a.num_outputs, " memory kinds");
  for (size_t i = 0; i < a.num_outputs; ++i) {
    const std::string kind(a.memory_kinds[i], a.memory_kind_sizes[i]);
    k.Require(known.count(kind) == 1, "output ", i, " is said to be in '", kind, "', which the device does not have");
  }
}

void ParameterMemoryKinds(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_ParameterMemoryKinds);
  a.executable = Two(k);
  KIT_OK(k, PJRT_Executable_ParameterMemoryKinds, a);
  k.Require(a.num_parameters == 2, "two parameters have ", a.num_parameters, " memory kinds");
}

void CodeSize(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_SizeOfGeneratedCodeInBytes);
  a.executable = Two(k);
  a.size_in_bytes = -5;
  KIT_OK(k, PJRT_Executable_SizeOfGeneratedCodeInBytes, a);
  k.Require(a.size_in_bytes >= -1, "the code has ", a.size_in_bytes, " bytes");
}

void CostAnalysis(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_GetCostAnalysis);
  a.executable = GetExecutable(k, Compile(k, kMatmul));
  KIT_OK(k, PJRT_Executable_GetCostAnalysis, a);
  const auto values = host::CopyNamedValues(a.properties, a.num_properties);
  k.Require(values.ok(), values.status().message());
  const host::NamedValue* flops = host::Find(*values, "flops");
  k.Require(flops != nullptr, "no 'flops' among ", values->size(), " costs");
  const auto* number = std::get_if<float>(&flops->value);
  k.Require(number != nullptr && *number >= 512 && *number <= 4096, "8x8 times 8x8 is said to take ",
            flops->FormatValue(), " operations, expected about 1024");
}

void MemoryAnalysis(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_GetCompiledMemoryStats);
  a.executable = GetExecutable(k, Compile(k, kMatmul));
  KIT_OK(k, PJRT_Executable_GetCompiledMemoryStats, a);
  k.Require(a.argument_size_in_bytes + a.host_argument_size_in_bytes >= 512,
            "two arguments of 256 bytes are said to take ", a.argument_size_in_bytes);
  k.Require(a.output_size_in_bytes + a.host_output_size_in_bytes >= 256, "a result of 256 bytes is said to take ",
            a.output_size_in_bytes);
  k.Require(a.temp_size_in_bytes >= 0 && a.alias_size_in_bytes >= 0 && a.generated_code_size_in_bytes >= -1,
            "a size is negative");
}

void OptimizedProgram(Kit& k) {
  PJRT_Executable* executable = Two(k);
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  KIT_ARGS(k, a, PJRT_Executable_OptimizedProgram);
  a.executable = executable;
  a.program = &p;
  KIT_OK(k, PJRT_Executable_OptimizedProgram, a);
  k.Require(p.code_size > 0 && p.code_size < (1 << 24), "the optimized program has ", p.code_size, " bytes");
  const std::string format(p.format, p.format_size);
  k.Require(format == "hlo" || format == "hlo_with_config" || format == "mlir",
            "the optimized program has the format '", format, "'");
  std::string code(p.code_size + 64, '\x6E');
  p.code = code.data();
  KIT_OK(k, PJRT_Executable_OptimizedProgram, a);
  for (size_t i = p.code_size; i < code.size(); ++i)
    k.Require(code[i] == '\x6E', "more bytes were written than were said");
  k.Require(code.substr(0, p.code_size) != std::string(p.code_size, '\x6E'), "nothing was written");
}

void SameFingerprint(Kit& k) {
  const std::string first = GetFingerprint(k, Compile(k, kAdd)), second = GetFingerprint(k, Compile(k, kAdd));
  k.Require(!first.empty(), "the fingerprint is empty");
  k.Require(first == second, "the same program compiled twice has two fingerprints: a cache never hits");
  PJRT_LoadedExecutable* loaded = Compile(k, kAdd);
  k.Require(GetFingerprint(k, loaded) == GetFingerprint(k, loaded), "the same executable has two fingerprints");
}

void OtherFingerprint(Kit& k) {
  k.Require(GetFingerprint(k, Compile(k, kAdd)) !=
                GetFingerprint(k, Compile(k, absl::StrReplaceAll(kAdd, {{"stablehlo.add", "stablehlo.subtract"}}))),
            "two programs have one fingerprint: a cache gives the wrong one");
}

void CompileOptionsBack(Kit& k) {
  KIT_ARGS(k, a, PJRT_Executable_GetCompileOptions);
  a.executable = Two(k);
  KIT_OK(k, PJRT_Executable_GetCompileOptions, a);
  k.Require(a.serialized_bytes_size == 0 || a.serialized_bytes != nullptr, "a size without bytes");
  k.Require(a.serialized_compile_options_deleter != nullptr, "no deleter, which hosts call");
  const std::string options(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_compile_options_deleter(a.serialized_compile_options);
  PJRT_LoadedExecutable* add = nullptr;
  const Err e = TryCompile(k, kAdd, "mlir", options, &add);
  k.Require(e.ok(), "the options that came back cannot be used: ", FormatError(e));
}

void AddressableDevices(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  KIT_ARGS(k, a, PJRT_LoadedExecutable_AddressableDevices);
  a.executable = add;
  KIT_OK(k, PJRT_LoadedExecutable_AddressableDevices, a);
  k.Require(a.num_addressable_devices == 1, "a program for one device is said to run on ", a.num_addressable_devices);
  k.Require(a.addressable_devices[0] == k.device(), "a program for the default device runs on another one");
}

void LogicalIds(Kit& k) {
  KIT_ARGS(k, a, PJRT_LoadedExecutable_AddressableDeviceLogicalIds);
  a.executable = Compile(k, kAdd);
  KIT_OK(k, PJRT_LoadedExecutable_AddressableDeviceLogicalIds, a);
  k.Require(a.num_addressable_device_logical_ids == 1 && a.addressable_device_logical_ids[0].replica == 0 &&
                a.addressable_device_logical_ids[0].partition == 0,
            "a program for one device does not run replica 0, partition 0");
}

void DeviceAssignment(Kit& k) {
  KIT_ARGS(k, a, PJRT_LoadedExecutable_GetDeviceAssignment);
  a.executable = Compile(k, kAdd);
  KIT_OK(k, PJRT_LoadedExecutable_GetDeviceAssignment, a);
  k.Require(a.serialized_bytes != nullptr && a.serialized_bytes_size > 0, "the device assignment is empty");
  k.Require(a.serialized_device_assignment_deleter != nullptr, "no deleter, which hosts call");
  // DeviceAssignmentProto: field 1, replica_count, is 1.
  const std::string bytes(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_device_assignment_deleter(a.serialized_device_assignment);
  k.Require(bytes.size() >= 2 && bytes[0] == 8 && bytes[1] == 1,
            "the device assignment is no DeviceAssignmentProto of one replica");
}

void Delete(Kit& k) {
  PJRT_LoadedExecutable* add = Compile(k, kAdd);
  const auto deleted = [&] {
    KIT_ARGS(k, a, PJRT_LoadedExecutable_IsDeleted);
    a.executable = add;
    KIT_OK(k, PJRT_LoadedExecutable_IsDeleted, a);
    return a.is_deleted;
  };
  k.Require(!deleted(), "a new executable says it has been deleted");
  KIT_ARGS(k, d, PJRT_LoadedExecutable_Delete);
  d.executable = add;
  KIT_OK(k, PJRT_LoadedExecutable_Delete, d);
  k.Require(deleted(), "a deleted executable says it has not been deleted");
  Destroy(k, add);
}

void ExecuteDeleted(Kit& k) {
  PJRT_LoadedExecutable* constant = Compile(k, kConstant);
  KIT_ARGS(k, d, PJRT_LoadedExecutable_Delete);
  d.executable = constant;
  KIT_OK(k, PJRT_LoadedExecutable_Delete, d);
  PJRT_Buffer* outputs[1] = {nullptr};
  PJRT_Buffer** output_lists[] = {outputs};
  PJRT_Buffer* const none[1] = {nullptr};
  PJRT_Buffer* const* argument_lists[] = {none};
  PJRT_ExecuteOptions options{};
  options.struct_size = host::StructSizeAt(k.minor(), &options, PJRT_ExecuteOptions_STRUCT_SIZE);
  KIT_ARGS(k, a, PJRT_LoadedExecutable_Execute);
  a.executable = constant;
  a.options = &options;
  a.argument_lists = argument_lists;
  a.num_devices = 1;
  a.output_lists = output_lists;
  Err e = KIT_TRY(k, PJRT_LoadedExecutable_Execute, a);
  if (e.ok()) e = Outcome(k, ReadyEvent(k, outputs[0]));
  k.Require(!e.ok(), "a deleted executable runs");
}

void OutlivesLoaded(Kit& k) {
  PJRT_LoadedExecutable* loaded = Compile(k, kTwoOutputs);
  PJRT_Executable* executable = GetExecutable(k, loaded);
  Destroy(k, loaded);
  KIT_ARGS(k, o, PJRT_Executable_NumOutputs);
  o.executable = executable;
  KIT_OK(k, PJRT_Executable_NumOutputs, o);
  k.Require(o.num_outputs == 2, "after the loaded executable went the other one has ", o.num_outputs, " outputs");
  Destroy(k, executable);
}

constexpr Check kChecks[] = {
    {"executable.name", "PJRT_Executable_Name", "it has a name", Name},
    {"executable.counts", "PJRT_Executable_NumOutputs PJRT_Executable_NumReplicas PJRT_Executable_NumPartitions",
     "it knows its replicas, partitions and outputs", Counts},
    {"executable.output_types", "PJRT_Executable_OutputElementTypes", "it knows the types of its outputs", OutputTypes},
    {"executable.output_dims", "PJRT_Executable_OutputDimensions", "it knows the dims of its outputs", OutputDims},
    {"executable.memory_kinds", "PJRT_Executable_OutputMemoryKinds", "its outputs are in memories that the device has",
     MemoryKinds},
    {"executable.parameter_memory_kinds", "PJRT_Executable_ParameterMemoryKinds",
     "it knows the memories of its parameters", ParameterMemoryKinds},
    {"executable.code_size", "PJRT_Executable_SizeOfGeneratedCodeInBytes", "it knows the size of its code", CodeSize},
    {"executable.cost", "PJRT_Executable_GetCostAnalysis", "it estimates its operations", CostAnalysis},
    {"executable.memory", "PJRT_Executable_GetCompiledMemoryStats", "it knows the memory it needs", MemoryAnalysis},
    {"executable.optimized_program", "PJRT_Executable_OptimizedProgram",
     "it gives the program as optimized, with its size first", OptimizedProgram},
    {"executable.fingerprint", "PJRT_Executable_Fingerprint", "the same program has the same fingerprint",
     SameFingerprint},
    {"executable.other_fingerprint", "PJRT_Executable_Fingerprint", "another program has another fingerprint",
     OtherFingerprint},
    {"executable.compile_options", "PJRT_Executable_GetCompileOptions",
     "it gives back the options it was compiled with", CompileOptionsBack},
    {"executable.devices", "PJRT_LoadedExecutable_AddressableDevices", "it knows its devices", AddressableDevices},
    {"executable.logical_ids", "PJRT_LoadedExecutable_AddressableDeviceLogicalIds",
     "it knows which replica and partition a device runs", LogicalIds},
    {"executable.assignment", "PJRT_LoadedExecutable_GetDeviceAssignment", "it gives its device assignment",
     DeviceAssignment},
    {"executable.delete", "PJRT_LoadedExecutable_Delete PJRT_LoadedExecutable_IsDeleted",
     "a deleted executable says so", Delete},
    {"executable.run_deleted", "PJRT_LoadedExecutable_Delete", "a deleted executable does not run", ExecuteDeleted},
    {"executable.outlives_loaded", "PJRT_LoadedExecutable_GetExecutable", "an executable outlives the loaded one",
     OutlivesLoaded, 0, true},
};

}  // namespace

absl::Span<const Check> ExecutableSuite() { return kChecks; }

}  // namespace backplane::conformance
