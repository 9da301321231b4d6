#include <climits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/import/proto/hlo_proto.h"
#include "core/import/proto/proto_values.h"
#include "core/ir/partitioned_shardings.h"
#include "core/text/attribute_text.h"
#include "core/text/hlo_printer.h"
#include "core/text/text_names.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

using ComputationIds = absl::flat_hash_map<const Computation*, int64_t>;
using InstructionIds = absl::flat_hash_map<const Instruction*, int64_t>;

void AccuracyToProto(const ResultAccuracy& a, proto::ResultAccuracyProto* out) {
  if (a.mode != ResultAccuracy::Mode::kTolerance)
    return out->set_mode(a.mode == ResultAccuracy::Mode::kHighest ? 1 : 0);
  out->mutable_tolerance()->set_atol(a.atol);
  out->mutable_tolerance()->set_rtol(a.rtol);
  out->mutable_tolerance()->set_ulps(a.ulps);
}

void InstructionToProto(const Instruction& i, const ComputationIds& computations, const InstructionIds& ids,
                        proto::HloInstructionProto* out) {
  out->set_name(i.name());
  out->set_opcode(std::string(OpName(i.opcode())));
  ShapeToProto(i.shape(), out->mutable_shape());
  if (!i.metadata().empty() || i.metadata().source_line != 0) {
    MetadataToProto(i.metadata(), !i.parent()->parent()->config().stack_frames.empty(), out->mutable_metadata());
  }
  if (i.annotations() != nullptr) AnnotationsToProto(*i.annotations(), out);
  if (i.Is(Opcode::kConstant)) LiteralToProto(i.literal(), out->mutable_literal());
  out->set_id(ids.at(&i));
  for (const Instruction* o : i.operands()) out->add_operand_ids(ids.at(o));
  for (const Instruction* p : i.control_predecessors()) out->add_control_predecessor_ids(ids.at(p));
  for (const Computation* c : i.called()) out->add_called_computation_ids(computations.at(c));
  if (i.Is(Opcode::kWhile) && i.called().size() == 2)
    out->mutable_called_computation_ids()->SwapElements(0, 1);  // body first
  if (i.sharding() != nullptr) ShardingToProto(*i.sharding(), out->mutable_sharding());
  FrontendAttributesToProto(CollectFrontendAttributes(i), out->mutable_frontend_attributes());
  if (i.result_accuracy()) AccuracyToProto(*i.result_accuracy(), out->mutable_result_accuracy());
  if (i.Is(Opcode::kConvolution) || i.Is(Opcode::kCustomCall)) {  // readers want the count that absence means
    out->set_feature_group_count(1);
    out->set_batch_group_count(1);
  }
  if (i.Is(Opcode::kCustomCall)) out->set_custom_call_api_version(static_cast<int>(CustomCallApiVersion::kOriginal));
  AttributesToProto(i, out);
  if (i.attrs().Has(AttrId::kFfiAttributes)) out->set_backend_config(FormatFfiAttributes(i));
  if (!i.backend_config().empty() && out->backend_config().empty()) out->set_backend_config(i.backend_config());
}

// An attribute may only name computations of the module.
absl::Status TooLarge() { return absl::ResourceExhaustedError("hlo proto: a module of more than 2 GiB"); }

absl::Status Check(const Module& module) {
  if (module.entry() == nullptr || module.entry()->root() == nullptr) {
    return absl::FailedPreconditionError("hlo proto: the module has no entry computation");
  }
  int64_t bytes = 0;  // of the constants: before anything is copied
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (i->Is(Opcode::kConstant) && i->shape().IsArray()) bytes += i->shape().byte_size();
      if (bytes > INT_MAX) return TooLarge();
    }
  }
  return absl::OkStatus();
}

// The partitioner leaves one sharding for each leaf. XLA writes one for each parameter, and one for the result.
// Hosts up to JAX 0.8 read the shardings of a compiled program here.
void PartitionedShardingsToProto(const Module& module, proto::HloModuleProto* out) {
  const StringMap& says = module.config().frontend_attributes;
  auto leaves_of = [&](const char* key) {
    auto text = says.find(key);
    absl::StatusOr<Sharding> all = text == says.end() ? Sharding() : ParseSharding(text->second);
    return all.ok() ? std::move(all->tuple) : std::vector<Sharding>();
  };
  auto put = [](const Shape& shape, const std::vector<Sharding>& leaves, size_t* at, proto::OpShardingProto* p) {
    if (!shape.IsTuple()) return ShardingToProto(leaves[(*at)++], p);
    Sharding tuple;
    tuple.type = Sharding::Type::kTuple;
    ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) { tuple.tuple.push_back(leaves[(*at)++]); });
    ShardingToProto(tuple, p);
  };
  auto count = [](const Shape& shape) {
    size_t n = 0;
    ForEachLeaf(shape, [&](const Shape&, const std::vector<int64_t>&) { ++n; });
    return n;
  };
  const ProgramShape program = module.entry()->program_shape();
  size_t parameter_leaves = 0;
  for (const Shape& p : program.parameters) parameter_leaves += count(p);
  size_t at = 0;
  const std::vector<Sharding> parameters = leaves_of(kParameterShardingsAttribute);
  if (parameters.size() == parameter_leaves) {
    for (const Shape& p : program.parameters) put(p, parameters, &at, out->add_spmd_parameters_shardings());
  }
  at = 0;
  const std::vector<Sharding> results = leaves_of(kResultShardingsAttribute);
  if (!results.empty() && results.size() == count(program.result)) {
    put(program.result, results, &at, out->mutable_spmd_output_sharding());
  }
}

void ModuleToProto(const Module& module, proto::HloModuleProto* out) {
  out->set_name(module.name());
  ComputationIds computations;
  int64_t next_instruction = 0;
  for (const Computation* c : SortCalleesFirst(module)) {
    const int64_t id = static_cast<int64_t>(computations.size());
    computations.emplace(c, id);
    proto::HloComputationProto* p = out->add_computations();
    p->set_name(c->name());
    p->set_id(id);
    p->set_is_fusion_computation(c->is_fusion());
    p->set_execution_thread(c->execution_thread());
    ProgramShapeToProto(c->program_shape(), p->mutable_program_shape());
    InstructionIds ids;
    for (const auto& i : c->instructions()) {
      // Unique in the module and small: readers of XLA up to 2025 refuse what is above INT_MAX.
      ids.emplace(i.get(), next_instruction++);
      InstructionToProto(*i, computations, ids, p->add_instructions());
    }
    p->set_root_id(ids.at(c->root()));
  }
  out->set_entry_computation_name(module.entry()->name());
  out->set_entry_computation_id(computations.at(module.entry()));

  const ModuleConfig& config = module.config();
  ProgramShape program = module.entry()->program_shape();
  if (!config.parameter_layouts.empty()) program.parameters = config.parameter_layouts;
  if (config.result_layout.element_type() != PrimitiveType::kInvalid) program.result = config.result_layout;
  ProgramShapeToProto(program, out->mutable_host_program_shape());
  for (const InputOutputAlias& a : config.input_output_aliases) {
    auto* e = out->mutable_input_output_alias()->add_entries();
    SetRepeated(a.output_index, e->mutable_output_index());
    e->set_parameter_number(a.parameter);
    SetRepeated(a.parameter_index, e->mutable_parameter_index());
    e->set_kind(a.must_alias ? 2 : 1);
  }
  for (const BufferDonor& d : config.buffer_donors) {
    auto* e = out->mutable_buffer_donor()->add_entries();
    e->set_parameter_number(d.parameter);
    SetRepeated(d.parameter_index, e->mutable_parameter_index());
  }
  FrontendAttributesToProto(config.frontend_attributes, out->mutable_frontend_attributes());
  proto::HloModuleProto::Config* own = out->mutable_config();
  own->set_num_replicas(config.num_replicas);
  own->set_num_partitions(config.num_partitions);
  own->set_use_spmd_partitioning(config.use_spmd_partitioning);
  own->set_use_shardy_partitioner(config.use_shardy_partitioner);
  const bool asks_of_result = config.result_layout.element_type() != PrimitiveType::kInvalid;
  own->set_has_entry_layout(!config.parameter_layouts.empty() || asks_of_result);
  if (own->has_entry_layout()) {
    own->set_default_parameter_layouts(config.parameter_layouts.empty());
    own->set_default_result_layout(!asks_of_result);
  }
  for (const std::string& k : config.parameter_memory_kinds) own->add_parameter_memory_kinds(k);
  for (const std::string& k : config.result_memory_kinds) own->add_result_memory_kinds(k);
  FrontendAttributesToProto(config.annotations, own->mutable_annotations());
  if (!config.stack_frames.empty()) StackFramesToProto(config.stack_frames, out->mutable_stack_frame_index());
  PartitionedShardingsToProto(module, out);
}

template <typename Message>
absl::StatusOr<std::string> Bytes(const Message& message) {
  if (message.ByteSizeLong() > INT_MAX) return TooLarge();
  return message.SerializeAsString();
}

}  // namespace

absl::StatusOr<std::string> SerializeHloModule(const Module& module) {
  RETURN_IF_ERROR(Check(module));
  proto::HloModuleProto message;
  ModuleToProto(module, &message);
  return Bytes(message);
}

absl::StatusOr<std::string> SerializeHloModuleWithConfig(const Module& module) {
  RETURN_IF_ERROR(Check(module));
  proto::HloModuleProtoWithConfig message;
  ModuleToProto(module, message.mutable_hlo_module());
  proto::HloModuleConfigProto* config = message.mutable_config();
  *config->mutable_entry_computation_layout() = message.hlo_module().host_program_shape();
  config->set_replica_count(module.config().num_replicas);
  config->set_num_partitions(module.config().num_partitions);
  config->set_use_spmd_partitioning(module.config().use_spmd_partitioning);
  config->set_use_shardy_partitioner(module.config().use_shardy_partitioner);
  return Bytes(message);
}

}  // namespace backplane
