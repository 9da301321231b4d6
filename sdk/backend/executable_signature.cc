#include "sdk/backend/executable_signature.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/analysis/leaves.h"
#include "core/import/proto/sharding_proto.h"
#include "core/ir/partitioned_shardings.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

std::string MemoryKindOf(const std::vector<std::string>& kinds, size_t i) {
  return i < kinds.size() && !kinds[i].empty() ? kinds[i] : "device";
}

// Calls `add` for each leaf of `shape`, with its layout: that of `asked` where it has one there, else its own or, with
// `asked`, the row-major one.
template <typename Add>
void AddLeavesWithLayouts(const Shape& shape, LayoutSource source, const Shape* asked, Add&& add) {
  if (shape.IsTuple()) {
    const bool fits = asked != nullptr && asked->IsTuple() && asked->tuple_size() == shape.tuple_size();
    for (int64_t i = 0; i < shape.tuple_size(); ++i)
      AddLeavesWithLayouts(shape.tuple_shapes(i), source, fits ? &asked->tuple_shapes(i) : nullptr, add);
    return;
  }
  Shape leaf = source == LayoutSource::kEntry ? shape : shape.WithoutLayout();
  if (leaf.IsArray()) {
    if (source == LayoutSource::kConfig && asked != nullptr && asked->IsArray() && asked->has_layout())
      leaf.set_layout(asked->layout());
    if (!leaf.has_layout()) leaf.set_row_major();
  }
  add(std::move(leaf));
}

// Writes the shardings that the partitioner has left about the program's leaves. Returns false where it has left none.
template <typename Info>
bool SetPartitionedShardings(const ModuleConfig& config, const char* attribute, std::vector<Info>& leaves) {
  const auto text = config.frontend_attributes.find(attribute);
  if (text == config.frontend_attributes.end()) return false;
  const absl::StatusOr<Sharding> tuple = ParseSharding(text->second);
  if (!tuple.ok() || tuple->tuple.size() != leaves.size()) return false;
  for (size_t k = 0; k < leaves.size(); ++k) leaves[k].sharding = SerializeSharding(tuple->tuple[k]);
  return true;
}

// Writes the shardings that an instruction itself has into its leaves, of which the first is leaf number `first`.
template <typename Info>
void SetInstructionShardings(const Instruction& i, size_t first, std::vector<Info>& leaves) {
  const Sharding* sharding = i.sharding().get();
  if (sharding == nullptr) return;
  const bool of_leaves = sharding->type == Sharding::Type::kTuple;
  const size_t count = static_cast<size_t>(CountLeaves(i.shape()));
  for (size_t k = 0; k < count; ++k) {
    if (of_leaves && k >= sharding->tuple.size()) return;
    leaves[first + k].sharding = SerializeSharding(of_leaves ? sharding->tuple[k] : *sharding);
  }
}

void SetShardings(const Module& module, const EntryLeaves& leaves, ExecutableSignature& signature) {
  const bool parameters = SetPartitionedShardings(module.config(), kParameterShardingsAttribute, signature.parameters);
  const bool outputs = SetPartitionedShardings(module.config(), kResultShardingsAttribute, signature.outputs);
  if (parameters || outputs) return;
  for (const Instruction* p : module.entry()->parameters()) {
    SetInstructionShardings(*p, static_cast<size_t>(leaves.first_argument(p->parameter_number())),
                            signature.parameters);
  }
  SetInstructionShardings(*module.entry()->root(), 0, signature.outputs);
}

absl::Status NoSuchArgument(const Module& module, int64_t parameter) {
  return absl::InvalidArgumentError(
      absl::StrCat(module.name(), ": donates a leaf of parameter ", parameter, ", which does not exist"));
}

}  // namespace

void ExecutableSignature::SetAliases(absl::Span<const int32_t> aliases) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    outputs[k].alias = aliases[k];
    if (aliases[k] >= 0) parameters[static_cast<size_t>(aliases[k])].donated = true;
  }
}

absl::StatusOr<ExecutableSignature> DescribeEntry(const Module& module, LayoutSource layouts) {
  const ModuleConfig& config = module.config();
  const Computation& entry = *module.entry();
  const EntryLeaves leaves(entry);
  ExecutableSignature signature;
  signature.num_replicas = config.num_replicas;
  signature.num_partitions = config.num_partitions;
  signature.parameters.reserve(static_cast<size_t>(leaves.argument_count()));
  for (const Instruction* p : entry.parameters()) {
    const size_t n = static_cast<size_t>(p->parameter_number());
    const Shape* asked = n < config.parameter_layouts.size() ? &config.parameter_layouts[n] : nullptr;
    AddLeavesWithLayouts(p->shape(), layouts, asked, [&](Shape leaf) {
      signature.parameters.push_back({std::move(leaf), MemoryKindOf(config.parameter_memory_kinds, n), false,
                                      p->metadata().op_name, std::nullopt});
    });
  }
  AddLeavesWithLayouts(entry.root()->shape(), layouts, &config.result_layout, [&](Shape leaf) {
    const size_t k = signature.outputs.size();
    signature.outputs.push_back({std::move(leaf), MemoryKindOf(config.result_memory_kinds, k), std::nullopt, -1});
  });
  std::vector<bool> used(signature.parameters.size(), false);
  for (const InputOutputAlias& alias : config.input_output_aliases) {
    const std::optional<int64_t> argument = leaves.FindArgument(alias.parameter, alias.parameter_index);
    if (!argument) return NoSuchArgument(module, alias.parameter);
    const size_t a = static_cast<size_t>(*argument);
    signature.parameters[a].donated = true;
    const std::optional<int64_t> output = leaves.FindOutput(alias.output_index);
    if (!output || used[a] || signature.outputs[static_cast<size_t>(*output)].alias >= 0) continue;
    signature.outputs[static_cast<size_t>(*output)].alias = static_cast<int32_t>(a);
    used[a] = true;
  }
  SetShardings(module, leaves, signature);
  return signature;
}

absl::Status AliasDonors(const Module& module, ExecutableSignature* signature) {
  const EntryLeaves leaves(*module.entry());
  for (const BufferDonor& donor : module.config().buffer_donors) {
    const std::optional<int64_t> argument = leaves.FindArgument(donor.parameter, donor.parameter_index);
    if (!argument) return NoSuchArgument(module, donor.parameter);
    ParameterInfo& parameter = signature->parameters[static_cast<size_t>(*argument)];
    for (OutputInfo& output : signature->outputs) {
      if (parameter.donated) break;
      if (output.alias >= 0 || !output.shape.Identical(parameter.shape) || output.memory_kind != parameter.memory_kind)
        continue;
      output.alias = static_cast<int32_t>(*argument);
      parameter.donated = true;
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane
