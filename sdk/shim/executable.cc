#include "absl/algorithm/container.h"
#include "core/import/proto/sharding_proto.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/executable_views.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {

void StringViews::SetPointers() {
  for (const std::string& s : strings) {
    pointers.push_back(s.c_str());
    sizes.push_back(s.size());
  }
}

namespace {

LayoutViews MakeLayouts(std::vector<Layout> layouts) {
  LayoutViews views;
  for (Layout& layout : layouts) views.layouts.push_back({std::move(layout)});
  for (PJRT_Layouts_MemoryLayout& layout : views.layouts) views.pointers.push_back(&layout);
  return views;
}

Layout LayoutOf(const Shape& shape) { return shape.has_layout() ? shape.layout() : Layout::RowMajor(shape.rank()); }

// Returns one sharding for each leaf, replicated for leaves without one. Empty if the signature has none.
template <typename Info>
std::optional<StringViews> MakeShardings(const std::vector<Info>& infos) {
  if (absl::c_all_of(infos, [](const Info& info) { return !info.sharding.has_value(); })) return std::nullopt;
  StringViews views;
  for (const Info& info : infos)
    views.strings.push_back(info.sharding ? *info.sharding : SerializeSharding(Sharding()));
  views.SetPointers();
  return views;
}

}  // namespace

ExecutableViews::ExecutableViews(const Executable& executable)
    : fingerprint(executable.fingerprint()), cost(executable.cost()) {
  const ExecutableSignature& signature = executable.signature();
  std::vector<Layout> in, out;
  for (const ParameterInfo& p : signature.parameters) {
    parameter_memory_kinds.strings.push_back(p.memory_kind);
    in.push_back(LayoutOf(p.shape));
  }
  for (const OutputInfo& o : signature.outputs) {
    output_memory_kinds.strings.push_back(o.memory_kind);
    output_types.push_back(ToBufferType(o.shape.element_type()));
    output_ranks.push_back(static_cast<size_t>(o.shape.rank()));
    output_dims.insert(output_dims.end(), o.shape.dimensions().begin(), o.shape.dimensions().end());
    out.push_back(LayoutOf(o.shape));
  }
  parameter_memory_kinds.SetPointers();
  output_memory_kinds.SetPointers();
  parameter_layouts = MakeLayouts(std::move(in));
  output_layouts = MakeLayouts(std::move(out));
  parameter_shardings = MakeShardings(signature.parameters);
  output_shardings = MakeShardings(signature.outputs);
}

}  // namespace backplane::shim

PJRT_Executable::PJRT_Executable(std::shared_ptr<const backplane::Executable> e) : executable(std::move(e)) {}
PJRT_Executable::~PJRT_Executable() = default;

const backplane::shim::ExecutableViews& PJRT_Executable::views() {
  std::call_once(once_, [&] { views_ = std::make_unique<backplane::shim::ExecutableViews>(*executable); });
  return *views_;
}

absl::StatusOr<const std::string*> PJRT_Executable::code_text(absl::string_view form) {
  backplane::MutexLock lock(code_mu_);
  auto at = code_texts_.find(form);
  if (at == code_texts_.end()) {
    ASSIGN_OR_RETURN(std::string text, executable->PrintCode(form));
    at = code_texts_.emplace(form, std::move(text)).first;
  }
  return &at->second;
}

namespace backplane::shim {

absl::Status Executable_Destroy(PJRT_Executable_Destroy_Args& a) {
  delete a.executable;
  return absl::OkStatus();
}

absl::Status Executable_Name(PJRT_Executable_Name_Args& a) {
  BP_REQUIRE(a.executable);
  const std::string& name = a.executable->executable->name();
  a.executable_name = name.c_str();
  a.executable_name_size = name.size();
  return absl::OkStatus();
}

absl::Status Executable_NumReplicas(PJRT_Executable_NumReplicas_Args& a) {
  BP_REQUIRE(a.executable);
  a.num_replicas = static_cast<size_t>(a.executable->executable->signature().num_replicas);
  return absl::OkStatus();
}

absl::Status Executable_NumPartitions(PJRT_Executable_NumPartitions_Args& a) {
  BP_REQUIRE(a.executable);
  a.num_partitions = static_cast<size_t>(a.executable->executable->signature().num_partitions);
  return absl::OkStatus();
}

absl::Status Executable_NumOutputs(PJRT_Executable_NumOutputs_Args& a) {
  BP_REQUIRE(a.executable);
  a.num_outputs = a.executable->executable->signature().outputs.size();
  return absl::OkStatus();
}

absl::Status Executable_SizeOfGeneratedCodeInBytes(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& a) {
  BP_REQUIRE(a.executable);
  a.size_in_bytes = a.executable->executable->code_size();
  return absl::OkStatus();
}

absl::Status Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args& a) {
  BP_REQUIRE(a.executable);
  const NamedValueList& cost = a.executable->views().cost;
  a.properties = cost.data();
  a.num_properties = cost.size();
  return absl::OkStatus();
}

absl::Status Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args& a) {
  BP_REQUIRE(a.executable);
  const StringViews& kinds = a.executable->views().output_memory_kinds;
  a.num_outputs = kinds.strings.size();
  a.memory_kinds = kinds.pointers.data();
  a.memory_kind_sizes = kinds.sizes.data();
  return absl::OkStatus();
}

absl::Status Executable_ParameterMemoryKinds(PJRT_Executable_ParameterMemoryKinds_Args& a) {
  BP_REQUIRE(a.executable);
  const StringViews& kinds = a.executable->views().parameter_memory_kinds;
  a.num_parameters = kinds.strings.size();
  a.memory_kinds = kinds.pointers.data();
  a.memory_kind_sizes = kinds.sizes.data();
  return absl::OkStatus();
}

absl::Status Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args& a) {
  BP_REQUIRE(a.executable);
  const auto& types = a.executable->views().output_types;
  a.output_types = const_cast<PJRT_Buffer_Type*>(types.data());
  a.num_output_types = types.size();
  return absl::OkStatus();
}

absl::Status Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args& a) {
  BP_REQUIRE(a.executable);
  const ExecutableViews& views = a.executable->views();
  a.num_outputs = views.output_ranks.size();
  a.dims = views.output_dims.data();
  a.dim_sizes = views.output_ranks.data();
  return absl::OkStatus();
}

absl::Status Executable_Fingerprint(PJRT_Executable_Fingerprint_Args& a) {
  BP_REQUIRE(a.executable);
  const std::string& fingerprint = a.executable->views().fingerprint;
  a.executable_fingerprint = fingerprint.c_str();
  a.executable_fingerprint_size = fingerprint.size();
  return absl::OkStatus();
}

absl::Status Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args& a) {
  BP_REQUIRE(a.executable);
  const CompiledMemoryStats s = a.executable->executable->memory_stats();
  a.generated_code_size_in_bytes = s.generated_code;
  a.argument_size_in_bytes = s.argument;
  a.output_size_in_bytes = s.output;
  a.alias_size_in_bytes = s.alias;
  a.temp_size_in_bytes = s.temp;
  a.host_generated_code_size_in_bytes = s.host_generated_code;
  a.host_argument_size_in_bytes = s.host_argument;
  a.host_output_size_in_bytes = s.host_output;
  a.host_alias_size_in_bytes = s.host_alias;
  a.host_temp_size_in_bytes = s.host_temp;
  a.peak_memory_in_bytes = s.peak;
  a.total_size_in_bytes = s.total;
  a.total_allocation_bytes = s.total;
  a.indefinite_allocations = 0;
  a.peak_unpadded_heap_bytes = s.peak;
  return absl::OkStatus();
}

}  // namespace backplane::shim
