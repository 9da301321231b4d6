#include "absl/algorithm/container.h"
#include "core/import/proto/sharding_proto.h"
#include "core/passes/partition/partition_module.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/executable_views.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {

void StringViews::Seal() {
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

// Returns the shardings that the partitioner has stored for the program's parameters or results, one for each leaf.
// Empty if there are none.
std::optional<StringViews> PartitionedShardings(const Executable& executable, const char* name, size_t leaves) {
  const StringMap& attributes = executable.optimized_module()->config().frontend_attributes;
  auto text = attributes.find(name);
  if (text == attributes.end()) return std::nullopt;
  absl::StatusOr<Sharding> tuple = ParseSharding(text->second);
  if (!tuple.ok() || tuple->tuple.size() != leaves) return std::nullopt;
  StringViews views;
  for (const Sharding& s : tuple->tuple) views.strings.push_back(SerializeSharding(s));
  return views;
}

// Returns the shardings that an executable without a module states; replicated for leaves without one. Empty if it
// states none.
template <typename Info>
std::optional<StringViews> GivenShardings(absl::Span<const Info> infos) {
  if (absl::c_all_of(infos, [](const Info& info) { return info.sharding.empty(); })) return std::nullopt;
  StringViews views;
  for (const Info& info : infos)
    views.strings.push_back(info.sharding.empty() ? SerializeSharding(Sharding()) : info.sharding);
  views.Seal();
  return views;
}

// Fills in one sharding for each leaf of the entry's parameters and of its result. Empty if the program states none.
void FillShardings(const Executable& executable, ExecutableViews& views) {
  if (executable.optimized_module() == nullptr) {
    views.parameter_shardings = GivenShardings(executable.parameters());
    views.output_shardings = GivenShardings(executable.outputs());
    return;
  }
  views.parameter_shardings =
      PartitionedShardings(executable, kParameterShardingsAttribute, executable.parameters().size());
  views.output_shardings = PartitionedShardings(executable, kResultShardingsAttribute, executable.outputs().size());
  if (views.parameter_shardings || views.output_shardings) {
    if (views.parameter_shardings) views.parameter_shardings->Seal();
    if (views.output_shardings) views.output_shardings->Seal();
    return;
  }
  const Computation* entry = executable.optimized_module()->entry();
  if (entry == nullptr || entry->root() == nullptr) return;
  const Sharding replicated;
  bool any = false;
  StringViews parameters;
  auto flatten = [&](const Shape& shape, const Sharding* sharding, StringViews& out) {
    int64_t leaf = 0;
    ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) {
      const Sharding* one = sharding;
      if (sharding != nullptr && sharding->type == Sharding::Type::kTuple) {
        one = leaf < static_cast<int64_t>(sharding->tuple.size()) ? &sharding->tuple[leaf] : nullptr;
      }
      any |= one != nullptr;
      out.strings.push_back(SerializeSharding(one == nullptr ? replicated : *one));
      ++leaf;
    });
  };
  for (const Instruction* p : entry->parameters()) flatten(p->shape(), p->sharding().get(), parameters);
  if (any && parameters.strings.size() == executable.parameters().size())
    views.parameter_shardings = std::move(parameters);
  any = false;
  StringViews outputs;
  flatten(entry->root()->shape(), entry->root()->sharding().get(), outputs);
  if (any && outputs.strings.size() == executable.outputs().size()) views.output_shardings = std::move(outputs);
  if (views.parameter_shardings) views.parameter_shardings->Seal();
  if (views.output_shardings) views.output_shardings->Seal();
}

}  // namespace

ExecutableViews::ExecutableViews(const Executable& executable)
    : fingerprint(executable.fingerprint()), cost(executable.cost()) {
  std::vector<Layout> in, out;
  for (const ParameterInfo& p : executable.parameters()) {
    parameter_memory_kinds.strings.push_back(p.memory_kind);
    in.push_back(LayoutOf(p.shape));
  }
  for (const OutputInfo& o : executable.outputs()) {
    output_memory_kinds.strings.push_back(o.memory_kind);
    output_types.push_back(ToBufferType(o.shape.element_type()));
    output_ranks.push_back(static_cast<size_t>(o.shape.rank()));
    output_dims.insert(output_dims.end(), o.shape.dimensions().begin(), o.shape.dimensions().end());
    out.push_back(LayoutOf(o.shape));
  }
  parameter_memory_kinds.Seal();
  output_memory_kinds.Seal();
  parameter_layouts = MakeLayouts(std::move(in));
  output_layouts = MakeLayouts(std::move(out));
  FillShardings(executable, *this);
}

}  // namespace backplane::shim

PJRT_Executable::PJRT_Executable(std::shared_ptr<const backplane::Executable> e) : executable(std::move(e)) {}
PJRT_Executable::~PJRT_Executable() = default;

const backplane::shim::ExecutableViews& PJRT_Executable::views() {
  std::call_once(once_, [&] { views_ = std::make_unique<backplane::shim::ExecutableViews>(*executable); });
  return *views_;
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
  a.num_replicas = static_cast<size_t>(a.executable->executable->options().num_replicas);
  return absl::OkStatus();
}

absl::Status Executable_NumPartitions(PJRT_Executable_NumPartitions_Args& a) {
  BP_REQUIRE(a.executable);
  a.num_partitions = static_cast<size_t>(a.executable->executable->options().num_partitions);
  return absl::OkStatus();
}

absl::Status Executable_NumOutputs(PJRT_Executable_NumOutputs_Args& a) {
  BP_REQUIRE(a.executable);
  a.num_outputs = a.executable->executable->outputs().size();
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
