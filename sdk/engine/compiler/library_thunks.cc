#include "sdk/engine/compiler/library_thunks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ir/instruction.h"
#include "sdk/engine/codegen/classify.h"
#include "sdk/engine/compiler/sort_comparator.h"
#include "sdk/engine/library/fft.h"
#include "sdk/engine/library/linear_algebra.h"
#include "sdk/engine/library/random.h"
#include "sdk/engine/library/sort.h"
#include "sdk/engine/library/topk.h"

namespace backplane::engine {
namespace {

// A kernel with what it was planned for bound to it.
class KernelCallThunk : public Thunk {
 public:
  KernelCallThunk(std::function<void(const RunState&)> run, double estimated_us,
                  std::function<int64_t(int)> workspace = nullptr)
      : run_(std::move(run)), workspace_(std::move(workspace)), estimated_us_(estimated_us) {}
  absl::Status Run(const RunState& state) const override {
    run_(state);
    return absl::OkStatus();
  }
  int64_t workspace_bytes(int num_threads) const override { return workspace_ ? workspace_(num_threads) : 0; }
  double estimated_us() const override { return estimated_us_; }

 private:
  std::function<void(const RunState&)> run_;
  std::function<int64_t(int)> workspace_;
  double estimated_us_;
};

class LibraryThunkMaker {
 public:
  LibraryThunkMaker(const Instruction& i, const BufferAssignment& a, std::vector<std::string>* log,
                    std::string* refusal)
      : i_(i), a_(a), log_(log), refusal_(refusal) {}

  std::unique_ptr<Thunk> Make(codegen::ComparatorFn comparator) {
    for (const Instruction* o : i_.operands()) {
      if (o->shape().HasDynamicDimensions()) return Refuse("an operand has dynamic dimensions");
    }
    switch (i_.opcode()) {
      case Opcode::kSort:
        return MakeSort(comparator);
      case Opcode::kTopK:
        return MakeTopK();
      case Opcode::kFft:
        return MakeFft();
      case Opcode::kCholesky:
        return MakeCholesky();
      case Opcode::kTriangularSolve:
        return MakeTriangularSolve();
      case Opcode::kRngBitGenerator:
        return MakeBits();
      case Opcode::kRng:
        return MakeNumbers();
      case Opcode::kRngGetAndUpdateState:
        return MakeState();
      default:
        return nullptr;
    }
  }

 private:
  std::unique_ptr<Thunk> Refuse(absl::string_view why) {
    *refusal_ = std::string(why);
    return nullptr;
  }
  std::unique_ptr<Thunk> Bind(std::function<void(const RunState&)> run, double us, absl::string_view what,
                              std::function<int64_t(int)> workspace = nullptr) {
    if (log_ != nullptr) log_->push_back(absl::StrCat(i_.name(), ": library: ", what));
    return std::make_unique<KernelCallThunk>(std::move(run), us, std::move(workspace));
  }

  const std::vector<SlotId>& Results() const { return a_.instruction_slots.at(&i_); }

  // The slots of the results, kNoSlot where nothing reads one.
  std::vector<SlotId> WantedResults() const {
    std::vector<SlotId> slots = Results();
    if (!i_.shape().IsTuple() || i_.IsRoot()) return slots;
    std::vector<bool> wanted(slots.size(), false);
    for (const Instruction* user : i_.users()) {
      if (!user->Is(Opcode::kGetTupleElement)) return slots;
      wanted[static_cast<size_t>(user->tuple_index())] = true;
    }
    for (size_t k = 0; k < slots.size(); ++k) {
      if (!wanted[k]) slots[k] = kNoSlot;
    }
    return slots;
  }

  std::unique_ptr<Thunk> MakeSort(codegen::ComparatorFn comparator) {
    SortProblem p;
    const Shape& shape = i_.operand(0)->shape();
    const Ints& dims = i_.dimensions();
    const int64_t dimension = dims.empty() ? shape.rank() - 1 : dims[0];
    p.n = shape.rank() == 0 ? 1 : shape.dimensions(dimension);
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (d != dimension) (d < dimension ? p.outer : p.inner) *= shape.dimensions(d);
    }
    if (p.n > std::numeric_limits<uint32_t>::max()) return Refuse("more than 2^32 elements in a row");
    std::vector<SlotId> in;
    for (const Instruction* o : i_.operands()) {
      p.operand_bytes.push_back(ByteWidth(o->shape().element_type()));
      in.push_back(a_.slot(o));
    }
    std::string what = "sort by comparator";
    if (auto keys = ComparatorKeys(*i_.called(0))) {
      p.keys = *std::move(keys);
      what = absl::StrCat("sort by ", p.keys.size(), " keys");
    } else if (comparator != nullptr) {
      p.comparator = comparator;
    } else {
      return Refuse("the comparator is neither a chain of comparisons nor could code be generated for it");
    }
    std::vector<SlotId> out = WantedResults();
    return Bind(
        [p, in = std::move(in), out = std::move(out)](const RunState& s) {
          absl::InlinedVector<const void*, 8> inputs;
          absl::InlinedVector<void*, 8> outputs;
          for (SlotId slot : in) inputs.push_back(s.slots[slot]);
          for (SlotId slot : out) outputs.push_back(slot == kNoSlot ? nullptr : s.slots[slot]);
          Sort(p, inputs.data(), outputs.data(), s.workspace, s.pool);
        },
        SortMicroseconds(p), absl::StrCat(what, ", ", p.outer, " x ", p.n, " x ", p.inner),
        [p](int threads) { return SortWorkspaceBytes(p, threads); });
  }

  std::unique_ptr<Thunk> MakeTopK() {
    const Shape& shape = i_.operand(0)->shape();
    const bool largest = !i_.attrs().Has(AttrId::kLargest) || i_.attrs().GetBool(AttrId::kLargest);
    const auto format = FindKeyFormat(shape.element_type(), largest, true);
    if (!format) return Refuse(absl::StrCat("top-k of ", Name(shape.element_type())));
    TopKProblem p;
    p.format = *format;
    p.k = i_.attrs().GetInt(AttrId::kK);
    p.n = shape.dimensions(shape.rank() - 1);
    for (int64_t d = 0; d + 1 < shape.rank(); ++d) p.rows *= shape.dimensions(d);
    if (p.n > std::numeric_limits<int32_t>::max()) return Refuse("more than 2^31 elements in a row");
    return Bind(
        [p, in = a_.slot(i_.operand(0)), values = Results()[0], indices = Results()[1]](const RunState& s) {
          TopK(p, s.slots[in], s.slots[values], static_cast<int32_t*>(s.slots[indices]), s.workspace, s.pool);
        },
        EstimateTopKMicroseconds(p), absl::StrCat("top ", p.k, " of ", p.n, ", ", p.rows, " rows"),
        [p](int threads) { return ComputeTopKWorkspaceBytes(p, threads); });
  }

  std::unique_ptr<Thunk> MakeFft() {
    FftProblem p;
    switch (i_.attrs().GetEnum<FftType>(AttrId::kFftType)) {
      case FftType::kFft:
        p.kind = FftKind::kForward;
        break;
      case FftType::kIfft:
        p.kind = FftKind::kInverse;
        break;
      case FftType::kRfft:
        p.kind = FftKind::kRealForward;
        break;
      case FftType::kIrfft:
        p.kind = FftKind::kRealInverse;
        break;
    }
    const Ints& lengths = i_.attrs().GetInts(AttrId::kFftLength);
    p.lengths.assign(lengths.begin(), lengths.end());
    if (p.lengths.empty() || i_.shape().num_elements() == 0) return Refuse("nothing to transform");
    p.is_double = BitWidth(ComplexPart(i_.shape().element_type())) == 64;
    for (int64_t d = 0; d + lengths.size() < static_cast<size_t>(i_.shape().rank()); ++d)
      p.batch *= i_.shape().dimensions(d);
    std::shared_ptr<const FftPlan> plan = FftPlan::Create(p);
    return Bind([plan, in = a_.slot(i_.operand(0)),
                 out = Results()[0]](const RunState& s) { plan->Run(s.slots[in], s.slots[out], s.workspace, s.pool); },
                plan->estimated_us(), absl::StrCat("fft of ", p.batch, " x ", absl::StrJoin(p.lengths, " x ")),
                [plan](int threads) { return plan->workspace_bytes(threads); });
  }

  static std::optional<MatrixType> MatrixOf(PrimitiveType t) {
    switch (t) {
      case PrimitiveType::kF32:
        return MatrixType::kF32;
      case PrimitiveType::kF64:
        return MatrixType::kF64;
      case PrimitiveType::kC64:
        return MatrixType::kC64;
      case PrimitiveType::kC128:
        return MatrixType::kC128;
      default:
        return std::nullopt;
    }
  }

  std::unique_ptr<Thunk> MakeCholesky() {
    const std::optional<MatrixType> type = MatrixOf(i_.shape().element_type());
    if (!type) return Refuse(absl::StrCat("cholesky of ", Name(i_.shape().element_type())));
    CholeskyProblem p;
    p.type = *type;
    p.lower = i_.attrs().GetBool(AttrId::kLower);
    const int64_t rank = i_.shape().rank();
    p.n = i_.shape().dimensions(rank - 1);
    for (int64_t d = 0; d < rank - 2; ++d) p.batch *= i_.shape().dimensions(d);
    return Bind([p, in = a_.slot(i_.operand(0)), out = Results()[0]](
                    const RunState& s) { Cholesky(p, s.slots[in], s.slots[out], s.workspace, s.pool); },
                EstimateCholeskyMicroseconds(p), absl::StrCat("cholesky of ", p.batch, " x ", p.n),
                [p](int threads) { return ComputeCholeskyWorkspaceBytes(p, threads); });
  }

  std::unique_ptr<Thunk> MakeTriangularSolve() {
    const std::optional<MatrixType> type = MatrixOf(i_.shape().element_type());
    if (!type) return Refuse(absl::StrCat("triangular solve of ", Name(i_.shape().element_type())));
    TriangularProblem p;
    p.type = *type;
    p.left = i_.attrs().GetBool(AttrId::kLeftSide);
    p.lower = i_.attrs().GetBool(AttrId::kLower);
    p.unit = i_.attrs().GetBool(AttrId::kUnitDiagonal);
    const auto op = i_.attrs().GetEnum<TriangularTranspose>(AttrId::kTransposeA, TriangularTranspose::kNoTranspose);
    p.transpose = op == TriangularTranspose::kTranspose || op == TriangularTranspose::kAdjoint;
    p.conjugate = op == TriangularTranspose::kAdjoint;
    const int64_t rank = i_.shape().rank();
    p.n = i_.operand(0)->shape().dimensions(rank - 1);
    p.others = i_.shape().dimensions(p.left ? rank - 1 : rank - 2);
    for (int64_t d = 0; d < rank - 2; ++d) p.batch *= i_.shape().dimensions(d);
    return Bind(
        [p, a = a_.slot(i_.operand(0)), b = a_.slot(i_.operand(1)), out = Results()[0]](const RunState& s) {
          TriangularSolve(p, s.slots[a], s.slots[b], s.slots[out], s.workspace, s.pool);
        },
        EstimateTriangularMicroseconds(p), absl::StrCat("triangular solve of ", p.batch, " x ", p.n, " for ", p.others),
        [p](int threads) { return ComputeTriangularWorkspaceBytes(p, threads); });
  }

  std::unique_ptr<Thunk> MakeBits() {
    const Shape& shape = i_.shape().tuple_shapes(1);
    const int64_t state_bytes = i_.operand(0)->shape().byte_size();
    if (IsSubByte(shape.element_type())) return Refuse(absl::StrCat("random bits of ", Name(shape.element_type())));
    const bool threefry = i_.attrs().GetEnum<RandomAlgorithm>(AttrId::kRandomAlgorithm) == RandomAlgorithm::kThreeFry;
    std::vector<int64_t> dims(shape.dimensions().begin(), shape.dimensions().end());
    const int64_t count = shape.num_elements();
    const int width = ByteWidth(shape.element_type());
    return Bind(
        [=, in = a_.slot(i_.operand(0)), next = Results()[0], out = Results()[1]](const RunState& s) {
          // Key and counter; a Philox state of two words has the key once more as the counter's upper half.
          uint64_t words[3] = {0, 0, 0};
          std::memcpy(words, s.slots[in], static_cast<size_t>(state_bytes));
          RandomState state{words[0], words[1], state_bytes > 16 ? words[2] : words[0]};
          if (threefry)
            GenerateThreeFryBits(state, dims, width, s.slots[out], s.pool);
          else
            GeneratePhiloxBits(state, count, width, s.slots[out], s.pool);
          words[1] = state.low;
          words[2] = state.high;
          std::memcpy(s.slots[next], words, static_cast<size_t>(state_bytes));
        },
        0.2 + static_cast<double>(shape.byte_size()) * (threefry ? 1.1e-4 : 2.2e-4), threefry ? "threefry" : "philox");
  }

  std::unique_ptr<Thunk> MakeNumbers() {
    const std::optional<RandomNumber> type = NumberOf(i_.shape().element_type());
    if (!type) return Refuse(absl::StrCat("random numbers of ", Name(i_.shape().element_type())));
    const bool normal =
        i_.attrs().GetEnum<RandomDistribution>(AttrId::kRandomDistribution) == RandomDistribution::kNormal;
    const int64_t count = i_.shape().num_elements();
    return Bind(
        [=, type = *type, a = a_.slot(i_.operand(0)), b = a_.slot(i_.operand(1)),
         out = Results()[0]](const RunState& s) {
          RandomState state = DrawRandomState();
          if (normal)
            DrawNormalNumbers(state, type, s.slots[a], s.slots[b], count, s.slots[out], s.pool);
          else
            DrawUniformNumbers(state, type, s.slots[a], s.slots[b], count, s.slots[out], s.pool);
        },
        0.2 + static_cast<double>(count) * (normal ? 0.03 : 0.003), normal ? "normal numbers" : "uniform numbers");
  }

  std::unique_ptr<Thunk> MakeState() {
    const uint64_t delta = static_cast<uint64_t>(std::max<int64_t>(1, i_.attrs().GetInt(AttrId::kDelta, 1)));
    const size_t bytes = static_cast<size_t>(i_.shape().byte_size());
    return Bind(
        [=, out = Results()[0]](const RunState& s) {
          const std::array<uint64_t, 2> state = AdvanceGeneratorState(delta);
          std::memcpy(s.slots[out], state.data(), std::min(bytes, sizeof state));
        },
        0.1, "state of the generator");
  }

  static std::optional<RandomNumber> NumberOf(PrimitiveType t) {
    switch (t) {
      case PrimitiveType::kF16:
        return RandomNumber::kF16;
      case PrimitiveType::kBF16:
        return RandomNumber::kBF16;
      case PrimitiveType::kF32:
        return RandomNumber::kF32;
      case PrimitiveType::kF64:
        return RandomNumber::kF64;
      case PrimitiveType::kPred:
        return RandomNumber::kPred;
      case PrimitiveType::kS8:
        return RandomNumber::kS8;
      case PrimitiveType::kS16:
        return RandomNumber::kS16;
      case PrimitiveType::kS32:
        return RandomNumber::kS32;
      case PrimitiveType::kS64:
        return RandomNumber::kS64;
      case PrimitiveType::kU8:
        return RandomNumber::kU8;
      case PrimitiveType::kU16:
        return RandomNumber::kU16;
      case PrimitiveType::kU32:
        return RandomNumber::kU32;
      case PrimitiveType::kU64:
        return RandomNumber::kU64;
      default:
        return std::nullopt;
    }
  }

  const Instruction& i_;
  const BufferAssignment& a_;
  std::vector<std::string>* log_;
  std::string* refusal_;
};

}  // namespace

bool NeedsComparator(const Instruction& instruction) {
  if (!instruction.Is(Opcode::kSort) || ComparatorKeys(*instruction.called(0))) return false;
  return codegen::CanCall(*instruction.called(0)).ok();
}

absl::StatusOr<std::unique_ptr<Thunk>> MakeLibraryThunk(const Instruction& instruction,
                                                        const BufferAssignment& assignment,
                                                        std::vector<std::string>* log, codegen::ComparatorFn comparator,
                                                        std::string* refusal) {
  return LibraryThunkMaker(instruction, assignment, log, refusal).Make(comparator);
}

}  // namespace backplane::engine
