#include "core/import/compile_options.h"

#include <climits>

#include "absl/strings/str_cat.h"
#include "core/import/proto/compile_options.messages.h"
#include "core/import/proto/proto_values.h"
#include "core/ops/attribute_values.h"
#include "core/types/literal.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("compile options: ", what));
}

// 0 means the default, 1.
absl::StatusOr<int32_t> Count(int64_t n, absl::string_view what) {
  if (n < 0 || n > kMaxDevices) return Invalid(absl::StrCat(what, " is ", n));
  return static_cast<int32_t>(n == 0 ? 1 : n);
}

absl::StatusOr<Shape> ReadShape(const proto::ShapeProto& in, absl::string_view what) {
  absl::StatusOr<Shape> shape = ShapeFromProto(in);
  if (!shape.ok())
    return absl::Status(shape.status().code(), absl::StrCat("compile options: ", what, ": ", shape.status().message()));
  return shape;
}

absl::Status ReadAssignment(const proto::DeviceAssignmentProto& in, CompileOptions* options) {
  const int64_t replicas = in.replica_count(), partitions = in.computation_count();
  if (replicas < 1 || partitions < 1 || replicas > kMaxDevices || partitions > kMaxDevices / replicas) {
    return Invalid(absl::StrCat("device assignment of ", replicas, " replicas and ", partitions, " partitions"));
  }
  if (replicas != options->num_replicas || partitions != options->num_partitions) {
    return Invalid(absl::StrCat("device assignment of ", replicas, "x", partitions, " devices, ", options->num_replicas,
                                "x", options->num_partitions, " are asked for"));
  }
  if (in.computation_devices_size() != partitions) return Invalid("device assignment lacks partitions");
  options->device_assignment.assign(static_cast<size_t>(replicas * partitions), 0);
  for (int p = 0; p < in.computation_devices_size(); ++p) {
    const auto& devices = in.computation_devices(p).replica_device_ids();
    if (devices.size() != replicas) return Invalid("device assignment lacks replicas");
    for (int r = 0; r < devices.size(); ++r) {
      if (devices.Get(r) < 0 || devices.Get(r) > INT_MAX) return Invalid(absl::StrCat("device id ", devices.Get(r)));
      options->device_assignment[static_cast<size_t>(r) * static_cast<size_t>(partitions) + static_cast<size_t>(p)] =
          static_cast<int32_t>(devices.Get(r));
    }
  }
  return absl::OkStatus();
}

std::string OverrideText(const proto::OptionOverrideProto& value) {
  switch (value.value_case()) {
    case proto::OptionOverrideProto::kStringField:
      return value.string_field();
    case proto::OptionOverrideProto::kBoolField:
      return value.bool_field() ? "true" : "false";
    case proto::OptionOverrideProto::kIntField:
      return absl::StrCat(value.int_field());
    case proto::OptionOverrideProto::kDoubleField:
      return ElementToString(Literal::Scalar(PrimitiveType::kF64, value.double_field()), 0);
    case proto::OptionOverrideProto::VALUE_NOT_SET:
      break;
  }
  return "";
}

}  // namespace

absl::StatusOr<CompileOptions> ParseCompileOptions(absl::string_view bytes) {
  CompileOptions options;
  if (bytes.empty()) return options;
  proto::CompileOptionsProto in;
  if (bytes.size() > INT_MAX || !in.ParseFromString(bytes)) {
    return Invalid("the bytes are no CompileOptionsProto");
  }
  const proto::ExecutableBuildOptionsProto& build = in.executable_build_options();
  ASSIGN_OR_RETURN(options.num_replicas, Count(build.num_replicas(), "the number of replicas"));
  ASSIGN_OR_RETURN(options.num_partitions, Count(build.num_partitions(), "the number of partitions"));
  if (int64_t{options.num_replicas} * options.num_partitions > kMaxDevices) return Invalid("more than 2^20 devices");
  // A message that leaves the ordinal out means none, which is written as -1.
  options.device_ordinal =
      build.device_ordinal() > 0 && build.device_ordinal() <= INT_MAX ? build.device_ordinal() : -1;
  options.use_spmd_partitioning = build.use_spmd_partitioning();
  options.use_shardy_partitioner = build.use_shardy_partitioner();
  options.use_auto_spmd_partitioning = build.use_auto_spmd_partitioning();
  options.parameter_is_tupled_arguments = in.parameter_is_tupled_arguments();
  options.compile_portable_executable = in.compile_portable_executable();
  if (build.has_device_assignment()) RETURN_IF_ERROR(ReadAssignment(build.device_assignment(), &options));
  for (const proto::ShapeProto& s : in.argument_layouts()) {
    ASSIGN_OR_RETURN(Shape shape, ReadShape(s, absl::StrCat("argument ", options.argument_layouts.size())));
    options.argument_layouts.push_back(std::move(shape));
  }
  if (build.has_result_layout()) {
    ASSIGN_OR_RETURN(options.result_layout, ReadShape(build.result_layout(), "result"));
  }
  const auto& to_parameters = build.allow_spmd_sharding_propagation_to_parameters();
  options.allow_spmd_sharding_propagation_to_parameters.assign(to_parameters.begin(), to_parameters.end());
  const auto& to_output = build.allow_spmd_sharding_propagation_to_output();
  options.allow_spmd_sharding_propagation_to_output.assign(to_output.begin(), to_output.end());
  for (const auto& entry : in.env_option_overrides())
    options.env_option_overrides[entry.key()] = OverrideText(entry.value());
  options.serialized = std::string(bytes);
  return options;
}

std::string SerializeCompileOptions(const CompileOptions& options) {
  if (!options.serialized.empty()) return options.serialized;
  proto::CompileOptionsProto out;
  proto::ExecutableBuildOptionsProto* build = out.mutable_executable_build_options();
  build->set_device_ordinal(options.device_ordinal);
  build->set_num_replicas(options.num_replicas);
  build->set_num_partitions(options.num_partitions);
  build->set_use_spmd_partitioning(options.use_spmd_partitioning);
  build->set_use_shardy_partitioner(options.use_shardy_partitioner);
  build->set_use_auto_spmd_partitioning(options.use_auto_spmd_partitioning);
  out.set_parameter_is_tupled_arguments(options.parameter_is_tupled_arguments);
  out.set_compile_portable_executable(options.compile_portable_executable);
  if (!options.device_assignment.empty()) {
    proto::DeviceAssignmentProto* assignment = build->mutable_device_assignment();
    assignment->set_replica_count(options.num_replicas);
    assignment->set_computation_count(options.num_partitions);
    for (int32_t p = 0; p < options.num_partitions; ++p) {
      auto* devices = assignment->add_computation_devices();
      for (int32_t r = 0; r < options.num_replicas; ++r) {
        const size_t at = static_cast<size_t>(r) * static_cast<size_t>(options.num_partitions) + static_cast<size_t>(p);
        if (at < options.device_assignment.size()) devices->add_replica_device_ids(options.device_assignment[at]);
      }
    }
  }
  for (const Shape& s : options.argument_layouts) ShapeToProto(s, out.add_argument_layouts());
  if (options.result_layout.element_type() != PrimitiveType::kInvalid) {
    ShapeToProto(options.result_layout, build->mutable_result_layout());
  }
  for (bool b : options.allow_spmd_sharding_propagation_to_parameters)
    build->add_allow_spmd_sharding_propagation_to_parameters(b);
  for (bool b : options.allow_spmd_sharding_propagation_to_output)
    build->add_allow_spmd_sharding_propagation_to_output(b);
  for (const auto& [key, value] : options.env_option_overrides) {
    auto* entry = out.add_env_option_overrides();
    entry->set_key(key);
    entry->mutable_value()->set_string_field(value);
  }
  return out.SerializeAsString();
}

}  // namespace backplane
