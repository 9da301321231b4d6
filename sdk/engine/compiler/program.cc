#include "sdk/engine/compiler/program.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/analysis/aliased_leaves.h"
#include "core/analysis/trip_count.h"
#include "core/passes/calls.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/operation_trace.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/compiler/compile_kernels.h"
#include "sdk/engine/compiler/library_problems.h"
#include "sdk/engine/compiler/library_steps.h"
#include "sdk/engine/runtime/memory_budget.h"
#include "sdk/engine/thunks/collective_thunk.h"
#include "sdk/engine/thunks/control_thunk.h"
#include "sdk/engine/thunks/external_thunk.h"
#include "sdk/engine/thunks/kernel_thunk.h"
#include "sdk/engine/thunks/library_thunk.h"
#include "sdk/engine/thunks/transfer_thunk.h"

namespace backplane::engine {
namespace {

std::shared_ptr<std::byte> AllocatePadded(size_t bytes) {
  if (!Fault(FaultSite::kTemporary).ok()) return nullptr;
  const size_t size = (bytes + 127) / 64 * 64;
  return {static_cast<std::byte*>(std::aligned_alloc(64, size)), std::free};
}

// The same as RunSequence, but that each step may be made to fail.
absl::Status RunWithFaults(const ThunkSequence& sequence, const RunState& state) {
  for (const auto& thunk : sequence) {
    RETURN_IF_ERROR(Fault(FaultSite::kKernel));
    RETURN_IF_ERROR(thunk->Run(state));
  }
  return absl::OkStatus();
}

bool HasNoElements(const Shape& shape) {
  bool none = true;
  ForEachLeaf(
      shape, [&](const Shape& s, const std::vector<int64_t>&) { none = none && s.IsArray() && s.num_elements() == 0; });
  return none;
}

// What is no work of its own, and what OwnSteps are not asked about.
bool MakesNoStep(const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kBitcast:
    case Opcode::kReshape:
    case Opcode::kFusion:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kOptimizationBarrier:
    case Opcode::kDomain:
    case Opcode::kAddDependency:
    case Opcode::kAfterAll:
      return true;
    default:
      return false;
  }
}

struct PlannedKernel {
  codegen::KernelPlan plan;
  codegen::KernelRequest request;
};

}  // namespace

class ProgramBuilder {
 public:
  ProgramBuilder(std::unique_ptr<Module> module, const ProgramOptions& options, std::vector<std::string>* log)
      : program_(new Program()), options_(options), log_(log) {
    program_->module_ = std::move(module);
  }

  absl::StatusOr<std::unique_ptr<Program>> Build() {
    ASSIGN_OR_RETURN(program_->assignment_,
                     AssignBuffers(*program_->module_, [this](const Instruction* i, int64_t operand, int64_t output) {
                       return MayWorkInPlace(i, operand, output);
                     }));
    RETURN_IF_ERROR(MakeConstants());
    CollectKernels(program_->module_->entry());
    RETURN_IF_ERROR(Compile());
    ASSIGN_OR_RETURN(program_->steps_, Sequence(program_->module_->entry()));
    program_->workspace_bytes_ = SequenceWorkspace(program_->steps_, std::max(1, options_.num_threads));
    program_->estimated_us_ = SequenceMicroseconds(program_->steps_);
    program_->may_block_ = SequenceMayBlock(program_->steps_);
    return std::move(program_);
  }

 private:
  void Log(std::string line) {
    if (log_ != nullptr) log_->push_back(std::move(line));
  }

  static bool IsKernel(const Instruction* i) { return i->Is(Opcode::kFusion) && !AsDotCall(*i); }

  const std::vector<codegen::InPlacePair>& Candidates(const Instruction* fusion) {
    auto [at, fresh] = candidates_.try_emplace(fusion);
    if (fresh) at->second = codegen::InPlaceCandidates(*fusion->called(0));
    return at->second;
  }

  bool MayWorkInPlace(const Instruction* i, int64_t operand, int64_t output) {
    if (!IsKernel(i)) return false;
    for (const codegen::InPlacePair& p : Candidates(i)) {
      if (p.input == operand && p.output == output) return true;
    }
    return false;
  }

  absl::Status MakeConstants() {
    for (const Instruction* c : program_->assignment_.constants) {
      const Literal& literal = c->literal();
      std::shared_ptr<std::byte> memory = AllocatePadded(static_cast<size_t>(literal.byte_size()));
      if (memory == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat(c->name(), ": no memory for a constant of ", literal.byte_size(), " bytes"));
      }
      std::memcpy(memory.get(), literal.bytes(), static_cast<size_t>(literal.byte_size()));
      program_->constant_bytes_ += literal.byte_size();
      program_->constants_.push_back(std::move(memory));
    }
    return absl::OkStatus();
  }

  codegen::KernelOptions OptionsOf(const Instruction* fusion) {
    codegen::KernelOptions options;
    const BufferAssignment& a = program_->assignment_;
    const std::vector<SlotId>& outputs = a.instruction_slots.at(fusion);
    auto padded = [&](SlotId s) { return codegen::BufferTraits{a.slots[s].kind != Slot::Kind::kArgument}; };
    for (const Instruction* operand : fusion->operands()) options.buffers.push_back(padded(a.slot(operand)));
    for (SlotId s : outputs) options.buffers.push_back(padded(s));
    for (const codegen::InPlacePair& p : Candidates(fusion)) {
      if (a.slot(fusion->operand(p.input)) == outputs[p.output]) options.shared.push_back(p);
    }
    return options;
  }

  void CollectKernels(const Computation* computation) {
    for (const auto& owned : computation->instructions()) {
      const Instruction* i = owned.get();
      if (i->Is(Opcode::kWhile) || i->Is(Opcode::kConditional) || StaysCall(*i)) {
        for (const Computation* c : i->called()) CollectKernels(c);
      }
      if (NeedsComparator(*i)) comparators_.try_emplace(i, absl::StrCat("c", comparators_.size()));
      if (!IsKernel(i)) continue;
      codegen::KernelOptions options = OptionsOf(i);
      const std::string key = codegen::KernelKey(*i->called(0), options);
      auto [at, fresh] = kernel_of_key_.try_emplace(key, static_cast<int>(kernels_.size()));
      if (fresh) {
        const std::string symbol = absl::StrCat("k", kernels_.size());
        absl::StatusOr<codegen::KernelPlan> plan = codegen::PlanKernel(*i->called(0), options, symbol);
        if (!plan.ok()) {
          kernel_of_key_.erase(key);
          refused_[i] = std::string(plan.status().message());
          continue;
        }
        Log(absl::StrCat(i->name(), ": kernel ", symbol, ": ", plan->note));
        kernels_.push_back({*std::move(plan), {i->called(0), std::move(options), symbol}});
      }
      kernel_of_instruction_[i] = at->second;
    }
  }

  absl::Status Compile() {
    if (kernels_.empty() && comparators_.empty()) return absl::OkStatus();
    if (options_.objects != nullptr) {
      program_->objects_ = *options_.objects;
    } else {
      CodeRequests requests;
      for (const PlannedKernel& k : kernels_) requests.kernels.push_back(k.request);
      for (const auto& [sort, symbol] : comparators_) requests.comparators.push_back({sort->called(0), symbol});
      std::sort(requests.comparators.begin(), requests.comparators.end(),
                [](const codegen::ScalarRequest& a, const codegen::ScalarRequest& b) { return a.symbol < b.symbol; });
      ASSIGN_OR_RETURN(program_->objects_, CompileKernels(requests, options_.pool, options_.num_threads));
    }
    ASSIGN_OR_RETURN(program_->library_, jit::CodeLibrary::Link(program_->objects_));
    return absl::OkStatus();
  }

  absl::StatusOr<ThunkSequence> Sequence(const Computation* computation) {
    ThunkSequence steps;
    const bool entry = computation == program_->module_->entry();
    for (const auto& owned : computation->instructions()) {
      RETURN_IF_ERROR(Step(owned.get(), steps));
      if (entry) program_->step_names_.resize(steps.size(), owned->name());
    }
    auto copies = program_->assignment_.end_copies.find(computation);
    if (copies != program_->assignment_.end_copies.end()) AddCopies(copies->second, steps);
    return steps;
  }

  static void AddCopies(const std::vector<SlotCopy>& copies, ThunkSequence& steps) {
    for (const SlotCopy& c : copies) {
      if (c.bytes > 0) steps.push_back(std::make_unique<CopyThunk>(c));
    }
  }

  absl::Status Step(const Instruction* i, ThunkSequence& steps) {
    RETURN_IF_ERROR(Fault(FaultSite::kCode));
    const BufferAssignment& a = program_->assignment_;
    if (!MakesNoStep(*i) && TakenBy(options_.own_steps, *i)) {
      ASSIGN_OR_RETURN(std::unique_ptr<Thunk> step, options_.own_steps->MakeStep(*i, a, log_));
      steps.push_back(std::move(step));
      return absl::OkStatus();
    }
    switch (i->opcode()) {
      case Opcode::kParameter:
      case Opcode::kConstant:
      case Opcode::kTuple:
      case Opcode::kGetTupleElement:
      case Opcode::kBitcast:
      case Opcode::kReshape:
      case Opcode::kOptimizationBarrier:
      case Opcode::kDomain:
      case Opcode::kAddDependency:
      case Opcode::kAfterAll:
        return absl::OkStatus();
      case Opcode::kFusion: {
        if (!IsKernel(i)) return DotStep(i, steps);
        auto at = kernel_of_instruction_.find(i);
        if (at == kernel_of_instruction_.end()) break;
        for (const auto& inner : i->called(0)->instructions())
          program_->open_ended_ |= inner->Is(Opcode::kWhile) && !ComputeTripCount(*inner);
        const PlannedKernel& k = kernels_[at->second];
        std::vector<codegen::KernelFn> functions;
        for (const codegen::KernelPhase& phase : k.plan.phases) {
          ASSIGN_OR_RETURN(codegen::KernelFn fn, program_->library_->LookupFunction<codegen::KernelFn>(phase.symbol));
          functions.push_back(fn);
        }
        std::vector<SlotId> slots;
        for (const Instruction* operand : i->operands()) slots.push_back(a.slot(operand));
        for (SlotId s : a.instruction_slots.at(i)) slots.push_back(s);
        steps.push_back(std::make_unique<KernelThunk>(k.plan, std::move(functions), std::move(slots)));
        return absl::OkStatus();
      }
      case Opcode::kDot:
        return DotStep(i, steps);
      case Opcode::kConvolution:
        return ConvolutionStep(i, steps);
      case Opcode::kWhile: {
        auto copies = a.loop_entry_copies.find(i);
        if (copies != a.loop_entry_copies.end()) AddCopies(copies->second, steps);
        ASSIGN_OR_RETURN(ThunkSequence condition, Sequence(i->called(0)));
        ASSIGN_OR_RETURN(ThunkSequence body, Sequence(i->called(1)));
        steps.push_back(std::make_unique<WhileThunk>(std::move(condition), std::move(body),
                                                     a.slot(i->called(0)->root()), ComputeTripCount(*i)));
        return absl::OkStatus();
      }
      case Opcode::kConditional: {
        std::vector<ThunkSequence> branches;
        for (const Computation* c : i->called()) {
          ASSIGN_OR_RETURN(ThunkSequence s, Sequence(c));
          branches.push_back(std::move(s));
        }
        steps.push_back(std::make_unique<ConditionalThunk>(
            std::move(branches), a.slot(i->operand(0)), i->operand(0)->shape().element_type() == PrimitiveType::kPred));
        return absl::OkStatus();
      }
      case Opcode::kCall: {
        if (!StaysCall(*i)) break;
        ASSIGN_OR_RETURN(ThunkSequence body, Sequence(i->called(0)));
        for (std::unique_ptr<Thunk>& step : body) steps.push_back(std::move(step));
        return absl::OkStatus();
      }
      case Opcode::kReplicaId:
      case Opcode::kPartitionId:
        steps.push_back(std::make_unique<DeviceNumberThunk>(i->Is(Opcode::kPartitionId), a.slot(i)));
        return absl::OkStatus();
      case Opcode::kCustomCall:
        return CustomCallStep(i, steps);
      case Opcode::kAllGather:
      case Opcode::kAllReduce:
      case Opcode::kAllToAll:
      case Opcode::kCollectiveBroadcast:
      case Opcode::kCollectivePermute:
      case Opcode::kRaggedAllToAll:
      case Opcode::kReduceScatter:
        return CollectiveStep(i, steps);
      case Opcode::kRecv:
      case Opcode::kSendDone:
        return absl::OkStatus();  // the other half does it
      case Opcode::kSend:
      case Opcode::kRecvDone:
      case Opcode::kInfeed:
      case Opcode::kOutfeed:
        return TransferStep(i, steps);
      default: {
        codegen::ComparatorFn comparator = nullptr;
        if (auto at = comparators_.find(i); at != comparators_.end()) {
          ASSIGN_OR_RETURN(comparator, program_->library_->LookupFunction<codegen::ComparatorFn>(at->second));
        }
        ASSIGN_OR_RETURN(std::unique_ptr<Thunk> step, MakeLibraryStep(*i, a, log_, comparator, &refused_[i]));
        if (step != nullptr) {
          steps.push_back(std::move(step));
          return absl::OkStatus();
        }
      }
    }
    if (!i->HasSideEffect() && HasNoElements(i->shape())) return absl::OkStatus();
    // The one form of line from which tools read what was not compiled.
    std::string& reason = refused_[i];
    if (reason.empty()) reason = std::string(codegen::CanEmit(*i).message());
    Log(absl::StrCat("interpreted: ", OpName(i->opcode()), " ", i->shape().ToString(), ": ", reason));
    std::vector<std::vector<SlotId>> operands;
    for (const Instruction* o : i->operands()) operands.push_back(a.instruction_slots.at(o));
    steps.push_back(std::make_unique<EvaluatorThunk>(i, std::move(operands), a.instruction_slots.at(i)));
    return absl::OkStatus();
  }

  template <typename Plan, typename Problem>
  absl::StatusOr<std::shared_ptr<const std::byte>> Pack(const Plan& plan, const Problem& problem,
                                                        const Instruction* rhs) {
    std::shared_ptr<const std::byte> none;
    if (!problem.rhs_is_constant || plan.packed_rhs_bytes() == 0) return none;
    std::shared_ptr<std::byte> packed = AllocatePadded(plan.packed_rhs_bytes());
    if (packed == nullptr)
      return absl::ResourceExhaustedError(absl::StrCat(rhs->name(), ": no memory for packed weights"));
    RETURN_IF_ERROR(plan.PrepareRhs(rhs->literal().bytes(), packed.get()));
    program_->constant_bytes_ += static_cast<int64_t>(plan.packed_rhs_bytes());
    return std::shared_ptr<const std::byte>(std::move(packed));
  }

  absl::Status DotStep(const Instruction* i, ThunkSequence& steps) {
    const BufferAssignment& a = program_->assignment_;
    ASSIGN_OR_RETURN(MatmulProblem problem, DotProblem(*AsDotCall(*i)));
    problem.rhs_is_constant = i->operand(1)->Is(Opcode::kConstant);
    MatmulOptions options;
    options.num_threads = std::max(1, options_.num_threads);
    RefusalLog refusals;
    ASSIGN_OR_RETURN(std::unique_ptr<MatmulPlan> plan, PlanMatmul(problem, options, &refusals));
    Log(absl::StrCat(i->name(), ": ", plan->name(), ": ", problem.ToString()));
    for (const std::string& r : refusals) Log(absl::StrCat("  ", r));
    double flops =
        2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k);
    for (int64_t b : problem.batch) flops *= static_cast<double>(b);
    ASSIGN_OR_RETURN(std::shared_ptr<const std::byte> packed, Pack(*plan, problem, i->operand(1)));
    steps.push_back(std::make_unique<DotThunk>(std::move(plan), a.slot(i->operand(0)), a.slot(i->operand(1)), a.slot(i),
                                               0.3 + flops / 1e5, std::move(packed)));
    return absl::OkStatus();
  }

  absl::Status ConvolutionStep(const Instruction* i, ThunkSequence& steps) {
    const BufferAssignment& a = program_->assignment_;
    ASSIGN_OR_RETURN(ConvolutionProblem problem, ConvProblem(*i));
    ConvolutionOptions options;
    options.num_threads = std::max(1, options_.num_threads);
    RefusalLog refusals;
    ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionPlan> plan, PlanConvolution(problem, options, &refusals));
    Log(absl::StrCat(i->name(), ": ", plan->name(), ": ", problem.ToString()));
    for (const std::string& r : refusals) Log(absl::StrCat("  ", r));
    double flops =
        2.0 * static_cast<double>(i->shape().num_elements()) * static_cast<double>(problem.kernel_in_features);
    for (const ConvolutionDim& d : problem.dims) flops *= static_cast<double>(d.kernel);
    ASSIGN_OR_RETURN(std::shared_ptr<const std::byte> packed, Pack(*plan, problem, i->operand(1)));
    steps.push_back(std::make_unique<ConvolutionThunk>(std::move(plan), a.slot(i->operand(0)), a.slot(i->operand(1)),
                                                       a.slot(i), 0.5 + flops / 1e5, std::move(packed)));
    return absl::OkStatus();
  }

  absl::Status CollectiveStep(const Instruction* i, ThunkSequence& steps) {
    const BufferAssignment& a = program_->assignment_;
    const ModuleConfig& config = program_->module_->config();
    ASSIGN_OR_RETURN(std::unique_ptr<HostCollective> plan,
                     HostCollective::Make(*i, config.num_replicas, config.num_partitions));
    std::vector<SlotId> operands;
    for (const Instruction* o : i->operands()) {
      const std::vector<SlotId>& slots = a.instruction_slots.at(o);
      operands.insert(operands.end(), slots.begin(), slots.end());
    }
    steps.push_back(std::make_unique<CollectiveThunk>(std::move(plan), std::move(operands), a.instruction_slots.at(i)));
    program_->meets_others_ = true;
    return absl::OkStatus();
  }

  absl::Status TransferStep(const Instruction* i, ThunkSequence& steps) {
    const BufferAssignment& a = program_->assignment_;
    const ModuleConfig& config = program_->module_->config();
    ASSIGN_OR_RETURN(std::unique_ptr<Transfer> plan, Transfer::Make(*i, config.num_replicas, config.num_partitions));
    std::vector<SlotId> leaves = a.instruction_slots.at(plan->sends() ? i->operand(0) : i);
    if (!plan->sends()) leaves.pop_back();  // the token
    if (!plan->to_or_from_host()) program_->meets_others_ = true;
    steps.push_back(std::make_unique<TransferThunk>(std::move(plan), std::move(leaves)));
    return absl::OkStatus();
  }

  std::vector<CustomCallThunk::Leaf> Leaves(const Shape& shape, const std::vector<SlotId>& slots) {
    std::vector<CustomCallThunk::Leaf> leaves;
    ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
      CustomCallThunk::Leaf l;
      l.slot = slots[leaves.size()];
      l.type = s.element_type();
      l.dims.assign(s.dimensions().begin(), s.dimensions().end());
      leaves.push_back(std::move(l));
    });
    return leaves;
  }

  absl::Status CustomCallStep(const Instruction* i, ThunkSequence& steps) {
    const BufferAssignment& a = program_->assignment_;
    CustomCallSpec spec;
    spec.target = i->custom_call_target();
    spec.api_version = i->attrs().GetEnum<CustomCallApiVersion>(AttrId::kApiVersion, CustomCallApiVersion::kOriginal);
    spec.opaque = i->attrs().GetString(AttrId::kOpaque);
    spec.attributes = i->attrs().Get<FfiDictionary>(AttrId::kFfiAttributes);
    if (options_.custom_calls == nullptr)
      return absl::NotFoundError(absl::StrCat(i->name(), ": no custom-call registry for ", spec.target));
    ASSIGN_OR_RETURN(std::unique_ptr<CustomCallSite> site, options_.custom_calls->Instantiate(spec));
    program_->acts_on_host_ |= i->attrs().GetBool(AttrId::kHasSideEffect);
    std::vector<CustomCallThunk::Leaf> operands;
    for (const Instruction* o : i->operands()) {
      for (CustomCallThunk::Leaf& l : Leaves(o->shape(), a.instruction_slots.at(o))) operands.push_back(std::move(l));
    }
    steps.push_back(std::make_unique<CustomCallThunk>(i->name(), std::move(site), std::move(operands),
                                                      Leaves(i->shape(), a.instruction_slots.at(i)),
                                                      GetAliasedLeaves(*i)));
    return absl::OkStatus();
  }

  std::unique_ptr<Program> program_;
  ProgramOptions options_;
  std::vector<std::string>* log_;
  absl::flat_hash_map<const Instruction*, std::vector<codegen::InPlacePair>> candidates_;
  std::vector<PlannedKernel> kernels_;
  absl::flat_hash_map<std::string, int> kernel_of_key_;
  absl::flat_hash_map<const Instruction*, int> kernel_of_instruction_;
  absl::flat_hash_map<const Instruction*, std::string> refused_;      // why no kernel could be had
  absl::flat_hash_map<const Instruction*, std::string> comparators_;  // of sorts: their symbols
};

Program::~Program() = default;

absl::StatusOr<std::unique_ptr<Program>> Program::Build(std::unique_ptr<Module> module, const ProgramOptions& options,
                                                        std::vector<std::string>* log) {
  return ProgramBuilder(std::move(module), options, log).Build();
}

absl::Status Program::Run(absl::Span<void* const> arguments, absl::Span<void* const> outputs, ThreadPool* pool,
                          MemoryPool* memory, const ExecutionContext& context) const {
  return RunSteps(arguments, outputs, pool, memory, context, nullptr);
}

absl::StatusOr<std::vector<Program::StepTime>> Program::Profile(absl::Span<void* const> arguments,
                                                                absl::Span<void* const> outputs, ThreadPool* pool,
                                                                MemoryPool* memory,
                                                                const ExecutionContext& context) const {
  std::vector<StepTime> times;
  RETURN_IF_ERROR(RunSteps(arguments, outputs, pool, memory, context, &times));
  return times;
}

// The program and each step of its entry as events of a host's profiler.
absl::Status Program::RunTraced(const RunState& state) const {
  OperationTrace& trace = OperationTrace::Get();
  const int32_t device = state.context->device;
  const int64_t begin = OperationTrace::NowNs();
  absl::Status status;
  int64_t now = begin;
  for (size_t k = 0; k < steps_.size() && status.ok(); ++k) {
    const int64_t start = now;
    status = steps_[k]->Run(state);
    now = OperationTrace::NowNs();
    trace.Record(device, false, k < step_names_.size() ? absl::string_view(step_names_[k]) : "copy", module_->name(),
                 start, now);
  }
  trace.Record(device, true, module_->name(), module_->name(), begin, now);
  return status;
}

absl::Status Program::RunSteps(absl::Span<void* const> arguments, absl::Span<void* const> outputs, ThreadPool* pool,
                               MemoryPool* memory, const ExecutionContext& context,
                               std::vector<StepTime>* times) const {
  const int64_t bytes = temporary_bytes();
  auto give_back = [memory, budget = context.budget](std::byte* b) {
    if (budget != nullptr) {
      budget->Free(b, MemoryBudget::Use::kTemporary);
    } else {
      memory->Free(b);
    }
  };
  std::unique_ptr<std::byte, decltype(give_back)> owner(nullptr, give_back);
  if (bytes > 0) {
    RETURN_IF_ERROR(Fault(FaultSite::kTemporary));
    if (context.budget != nullptr) {
      ASSIGN_OR_RETURN(void* allowed, context.budget->Allocate(static_cast<size_t>(bytes),
                                                               absl::StrCat(module_->name(), ": temporary memory"),
                                                               MemoryBudget::Use::kTemporary));
      owner.reset(static_cast<std::byte*>(allowed));
    } else {
      owner.reset(static_cast<std::byte*>(memory->Allocate(static_cast<size_t>(bytes))));
    }
    if (owner == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(module_->name(), ": no room for ", bytes, " bytes of temporary memory"));
    }
  }
  std::byte* const block = owner.get();
  absl::InlinedVector<void*, 64> slots;
  slots.reserve(assignment_.slots.size());
  for (const Slot& s : assignment_.slots) {
    switch (s.kind) {
      case Slot::Kind::kArgument:
        slots.push_back(arguments[s.index]);
        break;
      case Slot::Kind::kOutput:
        slots.push_back(outputs[s.index]);
        break;
      case Slot::Kind::kConstant:
        slots.push_back(constants_[s.index].get());
        break;
      case Slot::Kind::kTemporary:
        slots.push_back(block + s.offset);
        break;
    }
  }
  RunState state;
  state.slots = slots.data();
  state.workspace = block + (assignment_.temporary_bytes + 63) / 64 * 64;
  state.pool = pool;
  state.context = &context;
  absl::Status status;
  if (times == nullptr && OperationTrace::Get().Active()) [[unlikely]] {
    status = RunTraced(state);
  } else if (times == nullptr) {
    status = faults::on.load(std::memory_order_relaxed) ? RunWithFaults(steps_, state) : RunSequence(steps_, state);
  } else {
    for (size_t k = 0; k < steps_.size() && status.ok(); ++k) {
      const auto start = std::chrono::steady_clock::now();
      status = steps_[k]->Run(state);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      times->push_back({k < step_names_.size() ? step_names_[k] : "copy", took.count()});
    }
  }
  return status;
}

}  // namespace backplane::engine
