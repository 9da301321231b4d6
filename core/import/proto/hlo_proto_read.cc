#include <climits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/proto/hlo_proto.h"
#include "core/import/proto/proto_values.h"
#include "core/text/text_names.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Puts an instruction's name in front of an error that lacks it.
absl::Status At(absl::string_view name, const absl::Status& s) {
  if (absl::StrContains(s.message(), name)) return absl::Status(s.code(), absl::StrCat("hlo proto: ", s.message()));
  return absl::Status(s.code(), absl::StrCat("hlo proto: ", name.substr(0, 200), ": ", s.message()));
}

// 0 means the default, 1.
absl::Status Count(int64_t n, int64_t* out) {
  if (n < 0 || n > INT_MAX) return InvalidProto(absl::StrCat("a count of ", n));
  *out = n == 0 ? 1 : n;
  return absl::OkStatus();
}

class Reader {
 public:
  explicit Reader(const proto::HloModuleProto& in) : in_(in), module_(std::make_unique<Module>(in.name())) {}

  absl::StatusOr<std::unique_ptr<Module>> Read() {
    for (const proto::HloComputationProto& c : in_.computations()) RETURN_IF_ERROR(ReadComputation(c));
    auto entry = computations_.find(in_.entry_computation_id());
    if (entry == computations_.end()) return InvalidProto("no entry computation");
    module_->set_entry(entry->second);
    RETURN_IF_ERROR(ReadConfig());
    RETURN_IF_ERROR(VerifyModule(*module_));
    return std::move(module_);
  }

 private:
  absl::Status ReadComputation(const proto::HloComputationProto& in) {
    if (in.instructions_size() == 0) return InvalidProto(absl::StrCat("computation ", in.name(), " is empty"));
    if (computations_.contains(in.id())) return InvalidProto(absl::StrCat("two computations of id ", in.id()));
    computation_ = module_->AddComputation(in.name());
    computation_->set_is_fusion(in.is_fusion_computation());
    if (in.execution_thread() != "main") computation_->set_execution_thread(in.execution_thread());
    instructions_.clear();
    local_ids_.clear();
    for (const proto::HloInstructionProto& i : in.instructions()) {
      absl::Status s = ReadInstruction(i);
      if (!s.ok()) return At(i.name(), s);
    }
    Instruction* root = Find(in.root_id());
    if (root == nullptr)
      return InvalidProto(absl::StrCat("computation ", in.name(), " has no root of id ", in.root_id()));
    computation_->set_root(root);
    for (const Instruction* p : computation_->parameters()) {
      if (p == nullptr) return InvalidProto(absl::StrCat("computation ", in.name(), " lacks a parameter"));
    }
    computations_.emplace(in.id(), computation_);  // only now: nothing calls itself
    return absl::OkStatus();
  }

  // The upper 32 bits of an id are the computation's. Some writers leave them out where they speak of an instruction,
  // others where they number it: an id without them means the instruction whose lower bits are the same.
  Instruction* Find(int64_t id) const {
    auto whole = instructions_.find(id);
    if (whole != instructions_.end()) return whole->second;
    auto local = local_ids_.find(static_cast<uint32_t>(id));
    if (local == local_ids_.end() || local->second.second == nullptr) return nullptr;
    const auto& [other, instruction] = local->second;
    return id >> 32 == 0 || other >> 32 == 0 ? instruction : nullptr;
  }

  void Add(int64_t id, Instruction* i) {
    instructions_.emplace(id, i);
    auto [local, first] = local_ids_.try_emplace(static_cast<uint32_t>(id), id, i);
    if (!first) local->second.second = nullptr;  // the lower bits alone name two
  }

  absl::StatusOr<Instruction*> FindDefined(int64_t id) const {
    Instruction* i = Find(id);
    if (i == nullptr) return absl::InvalidArgumentError(absl::StrCat("no instruction of id ", id, " before it"));
    return i;
  }

  absl::Status ReadInstruction(const proto::HloInstructionProto& in) {
    InstructionSpec spec;
    const std::optional<Opcode> opcode = ParseOpcode(in.opcode());
    if (!opcode) return absl::UnimplementedError(absl::StrCat("unknown operation '", in.opcode().substr(0, 60), "'"));
    spec.opcode = *opcode;
    spec.name = in.name();
    ASSIGN_OR_RETURN(spec.shape, ShapeFromProto(in.shape()));
    for (int64_t id : in.operand_ids()) {
      ASSIGN_OR_RETURN(Instruction * operand, FindDefined(id));
      spec.operands.push_back(operand);
    }
    for (int64_t id : in.called_computation_ids()) {
      auto it = computations_.find(id);
      if (it == computations_.end())
        return absl::InvalidArgumentError(absl::StrCat("no computation of id ", id, " before it"));
      spec.called.push_back(it->second);
    }
    if (spec.opcode == Opcode::kWhile && spec.called.size() == 2)
      std::swap(spec.called[0], spec.called[1]);  // body first
    if (instructions_.contains(in.id()))
      return absl::InvalidArgumentError(absl::StrCat("two instructions of id ", in.id()));
    ASSIGN_OR_RETURN(spec.attrs, AttributesFromProto(spec.opcode, in, spec.operands));
    StringMap frontend = FrontendAttributesFromProto(in.frontend_attributes());
    if (spec.opcode == Opcode::kCall) RETURN_IF_ERROR(ExtractComposite(&frontend, &spec.attrs));
    if (spec.opcode == Opcode::kConstant) {
      ASSIGN_OR_RETURN(Literal literal, LiteralFromProto(in.literal(), spec.shape));
      spec.literal = std::make_shared<const Literal>(std::move(literal));
    }
    spec.metadata = ReadMetadata(in.metadata());
    const Shape written = spec.shape;
    ASSIGN_OR_RETURN(Instruction * i, computation_->AddChecked(std::move(spec)));
    if (!(written == i->shape())) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", written.ToString(), " is written, ", i->shape().ToString(), " is right"));
    }
    i->mutable_shape() = written;  // with its layout
    i->mutable_frontend_attributes() = std::move(frontend);
    if (in.has_sharding()) {
      ASSIGN_OR_RETURN(Sharding sharding, ShardingFromProto(in.sharding()));
      i->set_sharding(std::make_shared<const Sharding>(std::move(sharding)));
    }
    ASSIGN_OR_RETURN(StringMap annotations, AnnotationsFromProto(in, i->shape()));
    if (i->attrs().Has(AttrId::kFfiAttributes)) NoteFfiText(*i, in.backend_config(), &annotations);
    if (!annotations.empty()) i->set_annotations(std::make_shared<const StringMap>(std::move(annotations)));
    if (in.has_result_accuracy()) RETURN_IF_ERROR(ReadAccuracy(in.result_accuracy(), i));
    const bool is_attribute = i->attrs().Has(AttrId::kOpaque) || i->attrs().Has(AttrId::kFfiAttributes);
    if (!is_attribute && !in.backend_config().empty()) i->set_backend_config(in.backend_config());
    for (int64_t id : in.control_predecessor_ids()) {
      ASSIGN_OR_RETURN(Instruction * p, FindDefined(id));
      i->AddControlPredecessor(p);
    }
    if (i->Is(Opcode::kFusion)) {
      for (Computation* c : i->called()) c->set_is_fusion(true);
    }
    Add(in.id(), i);
    return absl::OkStatus();
  }

  OpMetadata ReadMetadata(const proto::OpMetadataProto& in) const {
    OpMetadata m = MetadataFromProto(in);
    if (!m.source_file.empty() || in.stack_frame_id() <= 0) return m;
    const proto::StackFrameIndexProto& index = in_.stack_frame_index();
    if (in.stack_frame_id() > index.stack_frames_size()) return m;
    const int location = index.stack_frames(in.stack_frame_id() - 1).file_location_id();
    if (location <= 0 || location > index.file_locations_size()) return m;
    const auto& in_file = index.file_locations(location - 1);
    if (in_file.file_name_id() <= 0 || in_file.file_name_id() > index.file_names_size()) return m;
    m.source_file = CutMetadataText(index.file_names(in_file.file_name_id() - 1));
    m.source_line = in_file.line();
    return m;
  }

  static absl::Status ReadAccuracy(const proto::ResultAccuracyProto& in, Instruction* i) {
    ResultAccuracy a;
    if (in.has_tolerance()) {
      a.mode = ResultAccuracy::Mode::kTolerance;
      a.atol = in.tolerance().atol();
      a.rtol = in.tolerance().rtol();
      a.ulps = in.tolerance().ulps();
    } else if (in.specs_case() == proto::ResultAccuracyProto::kMode) {
      if (in.mode() != 0 && in.mode() != 1)
        return absl::InvalidArgumentError(absl::StrCat("unknown accuracy mode ", in.mode()));
      a.mode = in.mode() == 1 ? ResultAccuracy::Mode::kHighest : ResultAccuracy::Mode::kDefault;
    } else {
      return absl::OkStatus();
    }
    i->set_result_accuracy(a);
    return absl::OkStatus();
  }

  absl::Status ReadConfig() {
    ModuleConfig& config = module_->config();
    const int64_t parameters = static_cast<int64_t>(module_->entry()->parameters().size());
    auto parameter = [&](int64_t n) { return n >= 0 && n < parameters; };
    for (const auto& e : in_.input_output_alias().entries()) {
      if (!parameter(e.parameter_number()))
        return InvalidProto(absl::StrCat("alias of parameter ", e.parameter_number(), ", of which there is none"));
      config.input_output_aliases.push_back(
          {ToInts(e.output_index()), e.parameter_number(), ToInts(e.parameter_index()), e.kind() == 2});
    }
    for (const auto& e : in_.buffer_donor().entries()) {
      if (!parameter(e.parameter_number()))
        return InvalidProto(absl::StrCat("donor parameter ", e.parameter_number(), ", of which there is none"));
      config.buffer_donors.push_back({e.parameter_number(), ToInts(e.parameter_index())});
    }
    config.frontend_attributes = FrontendAttributesFromProto(in_.frontend_attributes());
    config.stack_frames = StackFramesFromProto(in_.stack_frame_index());
    const bool ours = in_.has_config();
    if (ours) {
      RETURN_IF_ERROR(Count(in_.config().num_replicas(), &config.num_replicas));
      RETURN_IF_ERROR(Count(in_.config().num_partitions(), &config.num_partitions));
      config.use_spmd_partitioning = in_.config().use_spmd_partitioning();
      config.use_shardy_partitioner = in_.config().use_shardy_partitioner();
      config.parameter_memory_kinds.assign(in_.config().parameter_memory_kinds().begin(),
                                           in_.config().parameter_memory_kinds().end());
      config.result_memory_kinds.assign(in_.config().result_memory_kinds().begin(),
                                        in_.config().result_memory_kinds().end());
      config.annotations = FrontendAttributesFromProto(in_.config().annotations());
      if (config.parameter_memory_kinds.size() > static_cast<size_t>(parameters))
        return InvalidProto("more memory kinds than parameters");
    }
    if (!in_.has_host_program_shape() || (ours && !in_.config().has_entry_layout())) return absl::OkStatus();
    RETURN_IF_ERROR(ReadEntryLayout(in_.host_program_shape()));
    if (ours && in_.config().default_parameter_layouts()) config.parameter_layouts.clear();
    if (ours && in_.config().default_result_layout()) config.result_layout = Shape();
    return absl::OkStatus();
  }

  absl::Status ReadEntryLayout(const proto::ProgramShapeProto& in) {
    const ProgramShape program = module_->entry()->program_shape();
    std::vector<Shape> parameters;
    for (const auto& p : in.parameters()) {
      ASSIGN_OR_RETURN(Shape s, ShapeFromProto(p));
      parameters.push_back(std::move(s));
    }
    ASSIGN_OR_RETURN(Shape result, ShapeFromProto(in.result()));
    if (parameters != program.parameters || !(result == program.result)) {
      return InvalidProto(absl::StrCat("the program shape does not fit the entry ", program.ToString()));
    }
    module_->config().parameter_layouts = std::move(parameters);
    module_->config().result_layout = std::move(result);
    return absl::OkStatus();
  }

  const proto::HloModuleProto& in_;
  std::unique_ptr<Module> module_;
  Computation* computation_ = nullptr;
  absl::flat_hash_map<int64_t, Computation*> computations_;
  // Of the computation that is read: by id, and by the id's lower 32 bits, with the full id.
  absl::flat_hash_map<int64_t, Instruction*> instructions_;
  absl::flat_hash_map<uint32_t, std::pair<int64_t, Instruction*>> local_ids_;
};

absl::Status ApplyConfig(const proto::HloModuleConfigProto& in, Module* module) {
  ModuleConfig& config = module->config();
  RETURN_IF_ERROR(Count(in.replica_count(), &config.num_replicas));
  RETURN_IF_ERROR(Count(in.num_partitions(), &config.num_partitions));
  config.use_spmd_partitioning = in.use_spmd_partitioning();
  config.use_shardy_partitioner = in.use_shardy_partitioner();
  return absl::OkStatus();
}

template <typename Message>
absl::Status ParseMessage(absl::string_view bytes, absl::string_view name, Message* message) {
  if (bytes.size() > INT_MAX) return InvalidProto("more than 2 GiB");
  bool too_many = false;
  if (!message->ParseFromString(bytes, &too_many)) {
    return InvalidProto(too_many ? absl::StrCat(bytes.size(), " bytes contain too many nearly empty messages")
                                 : absl::StrCat("the bytes are no ", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> ParseHloModuleProto(absl::string_view bytes) {
  proto::HloModuleProto message;
  RETURN_IF_ERROR(ParseMessage(bytes, "HloModuleProto", &message));
  return Reader(message).Read();
}

absl::StatusOr<std::unique_ptr<Module>> ParseHloModuleProtoWithConfig(absl::string_view bytes) {
  proto::HloModuleProtoWithConfig message;
  RETURN_IF_ERROR(ParseMessage(bytes, "HloModuleProtoWithConfig", &message));
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, Reader(message.hlo_module()).Read());
  if (message.has_config()) RETURN_IF_ERROR(ApplyConfig(message.config(), module.get()));
  return module;
}

}  // namespace backplane
