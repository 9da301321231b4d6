#include "sdk/engine/compiler/thunk_factory.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/analysis/aliased_leaves.h"
#include "core/analysis/trip_count.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/lapack_calls.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/compiler/library_problems.h"
#include "sdk/engine/compiler/library_thunks.h"
#include "sdk/engine/thunks/collective_thunk.h"
#include "sdk/engine/thunks/control_thunk.h"
#include "sdk/engine/thunks/external_thunk.h"
#include "sdk/engine/thunks/followed_convolution_thunk.h"
#include "sdk/engine/thunks/guarded_thunk.h"
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

// The time of a custom call that only computes, or nothing if it may wait for something. Only calls of LAPACK with
// small matrices are known not to.
std::optional<double> EstimateComputingCall(const Instruction& call) {
  if (!IsLapackTarget(call.custom_call_target())) return std::nullopt;
  double most = 0;
  for (const Instruction* operand : call.operands()) {
    const Shape& s = operand->shape();
    if (!s.IsArray() || s.rank() < 2) continue;
    if (HasLargeMatrix(s.element_type(), s.dimensions())) return std::nullopt;
    const double rows = static_cast<double>(s.dimensions(s.rank() - 2));
    const double columns = static_cast<double>(s.dimensions(s.rank() - 1));
    const double matrices = static_cast<double>(s.num_elements()) / std::max(1.0, rows * columns);
    // A rough figure for all of them: eigenvalues take longer, factorizations and triangular systems less.
    most = std::max(most, matrices * (1 + 5e-3 * rows * columns * std::min(rows, columns)));
  }
  return 1 + most;
}

// Whether what depends on `value` in its computation has as many elements and reads it position by position.
bool ReadsSamePositions(const Instruction& value, int64_t elements) {
  if (value.shape().num_elements() != elements) return false;
  std::vector<const Instruction*> open = {&value};
  absl::flat_hash_set<const Instruction*> seen = {&value};
  while (!open.empty()) {
    const Instruction* i = open.back();
    open.pop_back();
    for (const Instruction* user : i->users()) {
      if (user->Is(Opcode::kTuple) && user->IsRoot()) continue;
      if (!user->shape().IsArray() || user->shape().num_elements() != elements) return false;
      if (!user->info().Has(kElementwise) && !user->Is(Opcode::kReshape)) return false;
      if (seen.insert(user).second) open.push_back(user);
    }
  }
  return true;
}

bool ShareMemory(const Slot& a, const Slot& b) {
  if (a.kind != b.kind) return false;
  if (a.kind != Slot::Kind::kTemporary) return a.index == b.index;
  const int64_t padding = compiler::kTailPadding;
  return a.offset < b.offset + b.bytes + padding && b.offset < a.offset + a.bytes + padding;
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
  if (IsKernelFusion(i)) {
    std::unique_ptr<KernelThunk> kernel = MakeKernel(i);
    if (kernel != nullptr && FollowConvolution(i, kernel, thunks)) return absl::OkStatus();
    if (kernel != nullptr) {
      thunks->push_back(std::move(kernel));
      return absl::OkStatus();
    }
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
      refusal = kernels_.refusal(i);  // AddWork has tried
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

std::unique_ptr<KernelThunk> ThunkFactory::MakeKernel(const Instruction& fusion) {
  const ProgramKernels::Kernel* kernel = kernels_.Find(fusion);
  if (kernel == nullptr) return nullptr;
  traits_.has_unbounded_loop |= HasUnboundedLoop(*fusion.called(0));
  std::vector<SlotId> slots;
  for (const Instruction* operand : fusion.operands()) slots.push_back(assignment_.slot(operand));
  for (SlotId s : assignment_.instruction_slots.at(&fusion)) slots.push_back(s);
  return std::make_unique<KernelThunk>(kernel->plan, kernel->functions, std::move(slots));
}

bool ThunkFactory::MayFollow(const Instruction& fusion, const KernelThunk& kernel) const {
  const Instruction& convolution = *last_convolution_.instruction;
  const Shape& shape = convolution.shape();
  const ConvolutionDimensions& d = convolution.conv_dims();
  const int64_t item = kernel.elements_per_item();
  if (item == 0 || d.output_spatial.empty() || d.output_batch != 0 || d.output_spatial[0] != 1) return false;
  const int64_t elements = shape.num_elements();
  if (elements == 0 || elements / (shape.dimensions(0) * shape.dimensions(1)) % item != 0) return false;
  bool same_elements = true;
  ForEachLeaf(fusion.shape(), [&](const Shape& s, const std::vector<int64_t>&) {
    same_elements = same_elements && s.IsArray() && s.num_elements() == elements;
  });
  if (!same_elements) return false;
  // Each element of the outputs reads only the element of the result at the same position.
  const SlotId result = assignment_.slot(&convolution);
  bool reads = false;
  for (int64_t k = 0; k < fusion.operand_count(); ++k) {
    if (assignment_.slot(fusion.operand(k)) != result) continue;
    reads = true;
    if (!ReadsSamePositions(*fusion.called(0)->parameters()[static_cast<size_t>(k)], elements)) return false;
  }
  if (!reads) return false;
  // The convolution still reads its operands while the kernel writes.
  for (SlotId out : assignment_.instruction_slots.at(&fusion)) {
    const Slot& slot = assignment_.slots[static_cast<size_t>(out)];
    if (slot.kind == Slot::Kind::kOutput && assignment_.output_alias[static_cast<size_t>(slot.index)] >= 0)
      return false;
    if (out != result && ShareMemory(slot, assignment_.slots[static_cast<size_t>(result)])) return false;
    for (const Instruction* operand : convolution.operands()) {
      const SlotId in = assignment_.slot(operand);
      if (in != kNoSlot && ShareMemory(slot, assignment_.slots[static_cast<size_t>(in)])) return false;
    }
  }
  return true;
}

bool ThunkFactory::FollowConvolution(const Instruction& fusion, std::unique_ptr<KernelThunk>& kernel,
                                     ThunkSequence* thunks) {
  if (thunks->empty() || thunks->back().get() != last_convolution_.thunk) return false;
  if (!last_convolution_.thunk->has_row_epilogue() || !MayFollow(fusion, *kernel)) return false;
  const Shape& shape = last_convolution_.instruction->shape();
  const int64_t rows = shape.dimensions(1);
  Log(absl::StrCat(fusion.name(), ": in parts, behind ", last_convolution_.instruction->name()));
  thunks->back().release();
  std::unique_ptr<ConvolutionThunk> convolution(last_convolution_.thunk);
  last_convolution_ = {};
  thunks->back() = std::make_unique<FollowedConvolutionThunk>(std::move(convolution), std::move(kernel), rows,
                                                              shape.num_elements() / (shape.dimensions(0) * rows));
  return true;
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
  auto thunk = std::make_unique<ConvolutionThunk>(planned.plan, assignment_.slot(i.operand(0)),
                                                  assignment_.slot(i.operand(1)), assignment_.slot(&i),
                                                  0.5 + flops / 1e5, std::move(packed), std::move(packable));
  last_convolution_ = {&i, thunk.get()};
  return thunk;
}

absl::StatusOr<std::unique_ptr<Thunk>> ThunkFactory::MakeCollective(const Instruction& i) {
  const ModuleConfig& config = module_.config();
  ASSIGN_OR_RETURN(std::unique_ptr<HostCollective> plan,
                   HostCollective::Make(i, numbers_.at(&i), config.num_replicas, config.num_partitions));
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
  const std::optional<double> estimated_us = EstimateComputingCall(i);
  return std::make_unique<CustomCallThunk>(i.name(), std::move(site), estimated_us, std::move(operands),
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
  traits_.has_unbounded_loop |= !step.trip_count.has_value();
  const ProgramKernels::LoopKernel* kernel = kernels_.FindLoop(*step.instruction);
  GuardWorkspaces(condition);
  GuardWorkspaces(body);
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
  for (ThunkSequence& branch : branches) GuardWorkspaces(branch);
  const bool selects_by_predicate = step.instruction->operand(0)->shape().element_type() == PrimitiveType::kPred;
  return std::make_unique<ConditionalThunk>(std::move(branches), step.selector, selects_by_predicate);
}

}  // namespace backplane::engine
