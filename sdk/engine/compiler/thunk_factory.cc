#include "sdk/engine/compiler/thunk_factory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/analysis/aliased_leaves.h"
#include "core/analysis/trip_count.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/compiler/library_problems.h"
#include "sdk/engine/compiler/library_thunks.h"
#include "sdk/engine/thunks/collective_thunk.h"
#include "sdk/engine/thunks/control_thunk.h"
#include "sdk/engine/thunks/external_thunk.h"
#include "sdk/engine/thunks/kernel_thunk.h"
#include "sdk/engine/thunks/library_thunk.h"
#include "sdk/engine/thunks/transfer_thunk.h"

namespace backplane::engine {
namespace {

bool HasNoElements(const Shape& shape) {
  bool none = true;
  ForEachLeaf(
      shape, [&](const Shape& s, const std::vector<int64_t>&) { none = none && s.IsArray() && s.num_elements() == 0; });
  return none;
}

bool HasUnboundedLoop(const Computation& kernel) {
  return std::any_of(kernel.instructions().begin(), kernel.instructions().end(),
                     [](const auto& i) { return i->Is(Opcode::kWhile) && !ComputeTripCount(*i); });
}

std::vector<CustomCallThunk::Leaf> CallLeaves(const Shape& shape, const std::vector<SlotId>& slots) {
  std::vector<CustomCallThunk::Leaf> leaves;
  ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
    CustomCallThunk::Leaf leaf;
    leaf.slot = slots[leaves.size()];
    leaf.type = s.element_type();
    leaf.dims.assign(s.dimensions().begin(), s.dimensions().end());
    leaves.push_back(std::move(leaf));
  });
  return leaves;
}

}  // namespace

std::shared_ptr<std::byte> AllocateConstant(size_t bytes) {
  if (!Fault(FaultSite::kTemporary).ok()) return nullptr;
  const size_t size = (bytes + 127) / 64 * 64;
  return {static_cast<std::byte*>(std::aligned_alloc(64, size)), std::free};
}

void ThunkFactory::Log(std::string line) {
  if (log_ != nullptr) log_->push_back(std::move(line));
}

absl::Status ThunkFactory::AddWork(const Instruction& i, ThunkSequence* thunks) {
  RETURN_IF_ERROR(Fault(FaultSite::kCode));
  if (i.Is(Opcode::kRecv) || i.Is(Opcode::kSendDone)) return absl::OkStatus();  // the other half does it
  if (!i.Is(Opcode::kFusion) && IsClaimedBy(options_.lowering, i)) {
    ASSIGN_OR_RETURN(std::unique_ptr<Thunk> thunk, options_.lowering->MakeThunk(i, assignment_, log_));
    thunks->push_back(std::move(thunk));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Thunk> thunk, MakeThunk(i));
  if (thunk != nullptr) thunks->push_back(std::move(thunk));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeThunk(const Instruction& i) {
  std::string refusal;
  switch (i.opcode()) {
    case Opcode::kFusion:
      if (std::optional<compiler::Attention> attention = compiler::AsAttention(i)) return MakeAttention(i, *attention);
      if (!IsKernelFusion(i)) return MakeDot(i);
      if (std::unique_ptr<Thunk> kernel = MakeKernel(i)) return kernel;
      refusal = kernels_.refusal(i);
      break;
    case Opcode::kDot:
      return MakeDot(i);
    case Opcode::kConvolution:
      return MakeConvolution(i);
    case Opcode::kReplicaId:
    case Opcode::kPartitionId:
      return std::make_unique<DeviceNumberThunk>(i.Is(Opcode::kPartitionId), assignment_.slot(&i));
    case Opcode::kCustomCall:
      return MakeCustomCall(i);
    case Opcode::kAllGather:
    case Opcode::kAllReduce:
    case Opcode::kAllToAll:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kCollectivePermute:
    case Opcode::kRaggedAllToAll:
    case Opcode::kReduceScatter:
      return MakeCollective(i);
    case Opcode::kSend:
    case Opcode::kRecvDone:
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
      return MakeTransfer(i);
    case Opcode::kCall:
      break;
    default: {
      ASSIGN_OR_RETURN(std::unique_ptr<Thunk> call, MakeLibraryCall(i, &refusal));
      if (call != nullptr) return call;
    }
  }
  if (!i.HasSideEffect() && HasNoElements(i.shape())) return std::unique_ptr<Thunk>();
  return MakeEvaluatorCall(i, std::move(refusal));
}

std::unique_ptr<Thunk> ThunkFactory::MakeKernel(const Instruction& fusion) {
  const ProgramKernels::Kernel* kernel = kernels_.Find(fusion);
  if (kernel == nullptr) return nullptr;
  traits_.has_unbounded_loop |= HasUnboundedLoop(*fusion.called(0));
  std::vector<SlotId> slots;
  for (const Instruction* operand : fusion.operands()) slots.push_back(assignment_.slot(operand));
  for (SlotId s : assignment_.instruction_slots.at(&fusion)) slots.push_back(s);
  return std::make_unique<KernelThunk>(kernel->plan, kernel->functions, std::move(slots));
}

template <typename Plan, typename Problem>
absl::StatusOr<std::shared_ptr<const std::byte>> ThunkFactory::PackWeights(const Plan& plan, const Problem& problem,
                                                                           const Instruction& weights) {
  std::shared_ptr<const std::byte> none;
  if (!problem.rhs_is_constant || plan.packed_rhs_bytes() == 0) return none;
  std::shared_ptr<std::byte> packed = AllocateConstant(plan.packed_rhs_bytes());
  if (packed == nullptr)
    return absl::ResourceExhaustedError(absl::StrCat(weights.name(), ": no memory for packed weights"));
  RETURN_IF_ERROR(plan.PrepareRhs(weights.literal().bytes(), packed.get()));
  packed_bytes_ += static_cast<int64_t>(plan.packed_rhs_bytes());
  return std::shared_ptr<const std::byte>(std::move(packed));
}

absl::StatusOr<ThunkFactory::Planned<MatmulPlan>> ThunkFactory::PlanOnce(const MatmulProblem& problem) {
  if (auto found = products_.find(problem); found != products_.end()) return found->second;
  MatmulOptions options;
  options.num_threads = std::max(1, options_.num_threads);
  Planned<MatmulPlan> planned;
  ASSIGN_OR_RETURN(planned.plan, PlanMatmul(problem, options, &planned.refusals));
  products_.emplace(problem, planned);
  return planned;
}

absl::StatusOr<ThunkFactory::Planned<ConvolutionPlan>> ThunkFactory::PlanOnce(const ConvolutionProblem& problem) {
  if (auto found = convolutions_.find(problem); found != convolutions_.end()) return found->second;
  ConvolutionOptions options;
  options.num_threads = std::max(1, options_.num_threads);
  Planned<ConvolutionPlan> planned;
  ASSIGN_OR_RETURN(planned.plan, PlanConvolution(problem, options, &planned.refusals));
  convolutions_.emplace(problem, planned);
  return planned;
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeDot(const Instruction& i) {
  ASSIGN_OR_RETURN(MatmulProblem problem, DotProblem(*AsDotCall(i)));
  problem.rhs_is_constant = i.operand(1)->Is(Opcode::kConstant);
  ASSIGN_OR_RETURN(const Planned<MatmulPlan> planned, PlanOnce(problem));
  Log(absl::StrCat(i.name(), ": ", planned.plan->name(), ": ", problem.ToString()));
  for (const std::string& r : planned.refusals) Log(absl::StrCat("  ", r));
  double flops = 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k);
  for (int64_t b : problem.batch) flops *= static_cast<double>(b);
  ASSIGN_OR_RETURN(std::shared_ptr<const std::byte> packed, PackWeights(*planned.plan, problem, *i.operand(1)));
  return std::make_unique<DotThunk>(planned.plan, assignment_.slot(i.operand(0)), assignment_.slot(i.operand(1)),
                                    assignment_.slot(&i), 0.3 + flops / 1e5, std::move(packed));
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeAttention(const Instruction& i,
                                                                   const compiler::Attention& attention) {
  ASSIGN_OR_RETURN(const AttentionProblem problem, ToAttentionProblem(attention));
  ASSIGN_OR_RETURN(std::unique_ptr<AttentionPlan> plan, PlanAttention(problem, std::max(1, options_.num_threads)));
  Log(absl::StrCat(i.name(), ": attention: ", problem.ToString()));
  // The operands of the fusion are numbered like the parameters of its computation.
  auto slot = [&](const compiler::AttentionView& view) {
    return assignment_.slot(i.operand(view.base->parameter_number()));
  };
  std::vector<SlotId> arrays;
  for (const Instruction* base : compiler::AttentionOperands(attention))
    arrays.push_back(assignment_.slot(i.operand(base->parameter_number())));
  const double flops = 2.0 * static_cast<double>(attention.items) * static_cast<double>(attention.queries) *
                       static_cast<double>(attention.keys) * static_cast<double>(attention.depth + attention.width);
  return std::make_unique<AttentionThunk>(std::move(plan), slot(attention.query), slot(attention.key),
                                          slot(attention.value), std::move(arrays), assignment_.slot(&i),
                                          0.5 + flops / 1e5);
}

// Weights that are an argument, which the program does not overwrite, may be packed once for many executions.
PackableOperand<ConvolutionPlan> ThunkFactory::MakePackable(const Instruction& convolution, ConvolutionProblem problem,
                                                            absl::string_view kernel) {
  PackableOperand<ConvolutionPlan> packable;
  const SlotId id = assignment_.slot(convolution.operand(1));
  if (problem.rhs_is_constant || id == kNoSlot || assignment_.slots[id].kind != Slot::Kind::kArgument) return packable;
  const int32_t argument = assignment_.slots[id].index;
  const std::vector<int32_t>& aliases = assignment_.output_alias;
  if (std::find(aliases.begin(), aliases.end(), argument) != aliases.end()) return packable;
  problem.rhs_is_constant = true;
  absl::StatusOr<Planned<ConvolutionPlan>> planned = PlanOnce(problem);
  // The same kernel, so that the bits of the result do not depend on the form.
  if (!planned.ok() || planned->plan->name() != kernel || planned->plan->packed_rhs_bytes() == 0) return packable;
  packable.plan = planned->plan;
  packable.number = packable_.size();
  PackableWeight weight;
  weight.argument = argument;
  weight.bytes = static_cast<int64_t>(packable.plan->packed_rhs_bytes());
  weight.pack = [plan = packable.plan](const void* from, void* to) { return plan->PrepareRhs(from, to); };
  packable_.push_back(std::move(weight));
  return packable;
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeConvolution(const Instruction& i) {
  ASSIGN_OR_RETURN(ConvolutionProblem problem, ConvProblem(i));
  ASSIGN_OR_RETURN(const Planned<ConvolutionPlan> planned, PlanOnce(problem));
  Log(absl::StrCat(i.name(), ": ", planned.plan->name(), ": ", problem.ToString()));
  for (const std::string& r : planned.refusals) Log(absl::StrCat("  ", r));
  double flops = 2.0 * static_cast<double>(i.shape().num_elements()) * static_cast<double>(problem.kernel_in_features);
  for (const ConvolutionDim& d : problem.dims) flops *= static_cast<double>(d.kernel);
  ASSIGN_OR_RETURN(std::shared_ptr<const std::byte> packed, PackWeights(*planned.plan, problem, *i.operand(1)));
  PackableOperand<ConvolutionPlan> packable = MakePackable(i, problem, planned.plan->name());
  return std::make_unique<ConvolutionThunk>(planned.plan, assignment_.slot(i.operand(0)),
                                            assignment_.slot(i.operand(1)), assignment_.slot(&i), 0.5 + flops / 1e5,
                                            std::move(packed), std::move(packable));
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeCollective(const Instruction& i) {
  const ModuleConfig& config = module_.config();
  ASSIGN_OR_RETURN(std::unique_ptr<HostCollective> plan,
                   HostCollective::Make(i, config.num_replicas, config.num_partitions));
  std::vector<SlotId> operands;
  for (const Instruction* o : i.operands()) {
    const std::vector<SlotId>& slots = assignment_.instruction_slots.at(o);
    operands.insert(operands.end(), slots.begin(), slots.end());
  }
  traits_.communicates = true;
  return std::make_unique<CollectiveThunk>(std::move(plan), std::move(operands), assignment_.instruction_slots.at(&i));
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeTransfer(const Instruction& i) {
  const ModuleConfig& config = module_.config();
  ASSIGN_OR_RETURN(std::unique_ptr<Transfer> plan, Transfer::Make(i, config.num_replicas, config.num_partitions));
  std::vector<SlotId> leaves = assignment_.instruction_slots.at(plan->sends() ? i.operand(0) : &i);
  if (!plan->sends()) leaves.pop_back();  // the token
  if (!plan->to_or_from_host()) traits_.communicates = true;
  return std::make_unique<TransferThunk>(std::move(plan), std::move(leaves));
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeCustomCall(const Instruction& i) {
  CustomCallSpec spec;
  spec.target = i.custom_call_target();
  spec.api_version = i.attrs().GetEnum<CustomCallApiVersion>(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
  spec.opaque = i.attrs().GetString(AttrId::kOpaque);
  spec.attributes = i.attrs().Get<FfiDictionary>(AttrId::kFfiAttributes);
  if (options_.custom_calls == nullptr)
    return absl::NotFoundError(absl::StrCat(i.name(), ": no custom-call registry for ", spec.target));
  ASSIGN_OR_RETURN(std::unique_ptr<CustomCallSite> site, options_.custom_calls->Instantiate(spec));
  traits_.has_host_effects |= i.attrs().GetBool(AttrId::kHasSideEffect);
  std::vector<CustomCallThunk::Leaf> operands;
  for (const Instruction* o : i.operands()) {
    for (CustomCallThunk::Leaf& leaf : CallLeaves(o->shape(), assignment_.instruction_slots.at(o)))
      operands.push_back(std::move(leaf));
  }
  return std::make_unique<CustomCallThunk>(i.name(), std::move(site), std::move(operands),
                                           CallLeaves(i.shape(), assignment_.instruction_slots.at(&i)),
                                           GetAliasedLeaves(i));
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeLibraryCall(const Instruction& i, std::string* refusal) {
  ASSIGN_OR_RETURN(const codegen::ComparatorFn comparator, kernels_.FindComparator(i));
  return MakeLibraryThunk(i, assignment_, log_, comparator, refusal);
}

std::unique_ptr<Thunk> ThunkFactory::MakeEvaluatorCall(const Instruction& i, std::string refusal) {
  // The one form of line from which tools read what was not compiled.
  if (refusal.empty()) refusal = std::string(codegen::CanEmit(i).message());
  Log(absl::StrCat("interpreted: ", OpName(i.opcode()), " ", i.shape().ToString(), ": ", refusal));
  std::vector<std::vector<SlotId>> operands;
  for (const Instruction* o : i.operands()) operands.push_back(assignment_.instruction_slots.at(o));
  return std::make_unique<EvaluatorThunk>(&i, std::move(operands), assignment_.instruction_slots.at(&i));
}

std::unique_ptr<Thunk> ThunkFactory::MakeCopy(const SlotCopy& copy) { return std::make_unique<CopyThunk>(copy); }

std::unique_ptr<Thunk> ThunkFactory::MakeWhile(const compiler::ScheduledStep& step, ThunkSequence condition,
                                               ThunkSequence body) {
  const ProgramKernels::LoopKernel* kernel = kernels_.FindLoop(*step.instruction);
  if (kernel == nullptr)
    return std::make_unique<WhileThunk>(std::move(condition), std::move(body), step.selector, step.trip_count);
  codegen::KernelPlan plan;
  plan.scratch_bytes = kernel->scratch_bytes;
  plan.phases.push_back({.symbol = kernel->symbol, .work_items = 1, .estimated_us = kernel->estimated_us});
  return std::make_unique<KernelThunk>(std::move(plan), std::vector<codegen::KernelFn>{kernel->function},
                                       kernel->slots);
}

std::unique_ptr<Thunk> ThunkFactory::MakeConditional(const compiler::ScheduledStep& step,
                                                     std::vector<ThunkSequence> branches) {
  const bool selects_by_predicate = step.instruction->operand(0)->shape().element_type() == PrimitiveType::kPred;
  return std::make_unique<ConditionalThunk>(std::move(branches), step.selector, selects_by_predicate);
}

}  // namespace backplane::engine
