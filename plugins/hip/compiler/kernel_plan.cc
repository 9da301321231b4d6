#include "plugins/hip/compiler/kernel_plan.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/attention_plan.h"
#include "plugins/hip/compiler/convolution_problem.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/fft_stages.h"
#include "plugins/hip/compiler/linear_algebra_kernels.h"
#include "plugins/hip/compiler/scan_kernel.h"
#include "plugins/hip/compiler/select_and_scatter_kernel.h"
#include "plugins/hip/compiler/sort_kernel.h"
#include "plugins/hip/compiler/top_k_kernel.h"
#include "plugins/hip/compiler/transpose_kernel.h"
#include "sdk/codegen/body/can_evaluate.h"
#include "sdk/codegen/body/combiner.h"
#include "sdk/compiler/index_map.h"

namespace backplane::hip {
namespace {

using compiler::Affine;
using compiler::Index;

constexpr int64_t kMinSharedElements = 32;  // below this one thread combines a row
constexpr int64_t kMaxBlocks = 16384;       // beyond them a block computes several parts of the work
constexpr int kVectorBytes = 16;            // the widest load of a thread

// `except` is an instruction whose value the kernel computes in another way.
absl::Status CanEvaluateAll(const Computation& body, const Instruction* except = nullptr) {
  for (const auto& i : body.instructions()) {
    if (i.get() == except) continue;
    if (i->Is(Opcode::kParameter) || i->Is(Opcode::kTuple) || i->Is(Opcode::kGetTupleElement)) continue;
    if (i->Is(Opcode::kConstant) && i->shape().IsArray()) continue;
    RETURN_IF_ERROR(codegen::CanEvaluate(*i));
  }
  return absl::OkStatus();
}

// ---- Rows.

// The shape of the rows of a body: the dimensions that its reductions read, and which of them they reduce.
struct RowSpace {
  std::vector<int64_t> dims, reduced;  // `reduced` ascending
  bool IsFull(const Shape& s) const {
    return std::equal(dims.begin(), dims.end(), s.dimensions().begin(), s.dimensions().end());
  }
  bool IsRow(const Shape& s) const {
    std::vector<int64_t> kept;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!std::binary_search(reduced.begin(), reduced.end(), static_cast<int64_t>(d))) kept.push_back(dims[d]);
    }
    return std::equal(kept.begin(), kept.end(), s.dimensions().begin(), s.dimensions().end());
  }
};

// Follows the reads of a body from its results to see that each reduction is read at its own row only.
class RowCheck {
 public:
  RowCheck(const RowSpace& space, const std::vector<const Instruction*>& reduces) : space_(space) {
    for (size_t d = 0; d < space.dims.size(); ++d) {
      full_.push_back(Affine::Var(vars_.Loop(space.dims[d])));
      if (!std::binary_search(space.reduced.begin(), space.reduced.end(), static_cast<int64_t>(d)))
        row_.push_back(full_.back());
    }
    materialized_.insert(reduces.begin(), reduces.end());
  }

  bool Holds(const Computation& body, const std::vector<const Instruction*>& reduces) {
    for (const Instruction* reduce : reduces) {
      for (int64_t k = 0; k < reduce->operand_count() / 2; ++k) {
        if (!ReadsOwnRow(reduce->operand(k), full_)) return false;
      }
      // Initial values have no index; those that depend on a reduction are rare.
      for (int64_t k = reduce->operand_count() / 2; k < reduce->operand_count(); ++k) {
        if (!ReadsOwnRow(reduce->operand(k), {})) return false;
      }
    }
    for (const KernelResult& result : ListKernelResults(body)) {
      if (materialized_.contains(result.instruction)) continue;
      if (!space_.IsFull(result.shape) && !space_.IsRow(result.shape)) return false;
      if (!ReadsOwnRow(result.instruction, space_.IsFull(result.shape) ? full_ : row_)) return false;
    }
    return true;
  }

 private:
  bool ReadsOwnRow(const Instruction* value, const Index& index) {
    compiler::AccessWalk walk(vars_, materialized_);
    walk.Visit(value, index);
    walk.Finish();
    if (walk.too_complex()) return false;
    return std::all_of(walk.accesses().begin(), walk.accesses().end(),
                       [&](const compiler::Access& a) { return !materialized_.contains(a.array) || a.index == row_; });
  }

  const RowSpace& space_;
  compiler::VarTable vars_;
  Index full_, row_;
  compiler::AccessWalk::ArraySet materialized_;
};

std::optional<KernelPlan> PlanRows(const Computation& body) {
  std::vector<const Instruction*> reduces;
  RowSpace space;
  for (const auto& i : body.instructions()) {
    if (!i->Is(Opcode::kReduce)) continue;
    if (!IsSharedByBlock(*i)) return std::nullopt;
    const Shape& operand = i->operand(0)->shape();
    RowSpace own{{operand.dimensions().begin(), operand.dimensions().end()}, compiler::SortedDims(*i)};
    if (reduces.empty()) {
      space = std::move(own);
    } else if (own.dims != space.dims || own.reduced != space.reduced) {
      return std::nullopt;
    }
    reduces.push_back(i.get());
  }
  if (reduces.empty() || !RowCheck(space, reduces).Holds(body, reduces)) return std::nullopt;
  KernelPlan plan;
  RowsPlan& kind = plan.kind.emplace<RowsPlan>();
  kind.reduces = std::move(reduces);
  for (size_t d = 0; d < space.dims.size(); ++d) {
    const bool reduced = std::binary_search(space.reduced.begin(), space.reduced.end(), static_cast<int64_t>(d));
    (reduced ? kind.columns : kind.rows) *= space.dims[d];
  }
  if (kind.rows == 0 || kind.columns == 0) return std::nullopt;
  kind.group = static_cast<uint32_t>(ChooseRowsOfGroup(*kind.reduces[0]));
  plan.threads = 64;
  while (plan.threads < 256 && plan.threads * 4 <= kind.columns * kind.group) plan.threads *= 2;
  if (kind.rows == 1 && kind.columns >= 8192) plan.threads = 1024;
  // What the threads exchange must fit into the shared memory of every GPU.
  std::vector<int64_t> widths;
  for (const Instruction* reduce : kind.reduces) {
    const size_t count = static_cast<size_t>(reduce->operand_count() / 2);
    widths.resize(std::max(widths.size(), count), 4);
    for (size_t k = 0; k < count; ++k) {
      widths[k] =
          std::max<int64_t>(widths[k], ByteWidth(reduce->operand(static_cast<int64_t>(k))->shape().element_type()));
    }
  }
  const int64_t bytes = std::accumulate(widths.begin(), widths.end(), int64_t{0});
  while (plan.threads > 64 && plan.threads * bytes > kMaxSharedBytes) plan.threads /= 2;
  if (plan.threads * bytes > kMaxSharedBytes) return std::nullopt;
  plan.blocks = CountBlocks(kind.rows, kind.group);
  plan.note = absl::StrCat("rows: ", kind.rows, " of ", kind.columns, ", ", kind.reduces.size(), " reductions");
  if (kind.group > 1) absl::StrAppend(&plan.note, ", ", kind.group, " rows in each block");
  return plan;
}

// ---- Updates.

// Whether the value is computed without reading the array.
bool IsIndependentOf(const Instruction* value, const Instruction* array) {
  absl::flat_hash_set<const Instruction*> seen;
  std::vector<const Instruction*> open = {value};
  while (!open.empty()) {
    const Instruction* i = open.back();
    open.pop_back();
    if (!seen.insert(i).second) continue;
    if (i == array) return false;
    open.insert(open.end(), i->operands().begin(), i->operands().end());
  }
  return true;
}

std::optional<KernelPlan> PlanUpdate(const Computation& body) {
  const Instruction* root = body.root();
  if (!root->Is(Opcode::kDynamicUpdateSlice) || !root->operand(0)->Is(Opcode::kParameter)) return std::nullopt;
  for (int64_t k = 1; k < root->operand_count(); ++k) {
    if (!IsIndependentOf(root->operand(k), root->operand(0))) return std::nullopt;
  }
  const int64_t updates = root->operand(1)->shape().num_elements();
  KernelPlan plan;
  plan.kind = UpdatePlan{};
  plan.updated_operands = {root->operand(0)->parameter_number()};
  plan.blocks = CountBlocks(updates, plan.threads);
  plan.note = absl::StrCat("update: ", updates, " elements");
  return plan;
}

// Whether threads can combine updates at the same time: by one operation that the machines have as an atomic one.
bool IsAtomic(const Instruction& scatter) {
  if (scatter.operand_count() != 3) return false;
  const std::optional<Opcode> op = codegen::AnalyzeCombiner(*scatter.called(0)).op;
  if (!op) return false;
  switch (scatter.operand(0)->shape().element_type()) {
    case PrimitiveType::kS32:
    case PrimitiveType::kU32:
    case PrimitiveType::kS64:
    case PrimitiveType::kU64:
      return *op == Opcode::kAdd || *op == Opcode::kMaximum || *op == Opcode::kMinimum || *op == Opcode::kAnd ||
             *op == Opcode::kOr || *op == Opcode::kXor;
    case PrimitiveType::kF32:
    case PrimitiveType::kF64:
      return *op == Opcode::kAdd;
    default:
      return false;
  }
}

absl::StatusOr<KernelPlan> PlanScatter(const Instruction& scatter) {
  RETURN_IF_ERROR(codegen::CheckArrays(scatter));
  for (const Computation* c : scatter.called()) RETURN_IF_ERROR(codegen::CanCall(*c));
  const int64_t arrays = (scatter.operand_count() - 1) / 2,
                updates = scatter.operand(arrays + 1)->shape().num_elements();
  if (3 * arrays + 1 > kMaxArrays) return absl::UnimplementedError(absl::StrCat("a scatter of ", arrays, " arrays"));
  KernelPlan plan;
  ScatterPlan& kind = plan.kind.emplace<ScatterPlan>();
  for (int64_t k = 0; k < arrays; ++k) plan.updated_operands.push_back(k);
  kind.parallel = IsAtomic(scatter) || scatter.attrs().GetBool(AttrId::kUniqueIndices);
  if (kind.parallel) {
    plan.blocks = CountBlocks(updates, plan.threads);
  } else {
    plan.threads = 64;
  }
  plan.note = absl::StrCat("scatter: ", updates, " updates", kind.parallel ? "" : ", in order");
  return plan;
}

// ---- Elements.

// Whether every instruction computes element i of its result from element i of its operands, or from scalars.
bool IsElementwise(const Computation& body, absl::Span<const int64_t> dims) {
  return std::all_of(body.instructions().begin(), body.instructions().end(), [&](const auto& i) {
    if (i->Is(Opcode::kTuple)) return true;
    if (!i->shape().IsArray()) return false;
    if (i->shape().IsScalar()) return true;
    if (!std::equal(dims.begin(), dims.end(), i->shape().dimensions().begin(), i->shape().dimensions().end()))
      return false;
    if (i->Is(Opcode::kParameter)) return true;
    if (i->Is(Opcode::kBroadcast)) return i->operand(0)->shape().IsScalar();
    return i->info().Has(OpTrait::kElementwise);
  });
}

// Whether neighbouring elements along the last dimension are computed from neighbours or from equal elements.
bool IsElementwiseAlongRows(const Computation& body) {
  return std::all_of(body.instructions().begin(), body.instructions().end(), [](const auto& i) {
    if (i->Is(Opcode::kBroadcast)) return std::is_sorted(i->dimensions().begin(), i->dimensions().end());
    return i->Is(Opcode::kTuple) || i->Is(Opcode::kParameter) || i->Is(Opcode::kConstant) || i->Is(Opcode::kIota) ||
           i->info().Has(OpTrait::kElementwise);
  });
}

bool CallsNothing(const Computation& body) {
  return std::all_of(body.instructions().begin(), body.instructions().end(),
                     [](const auto& i) { return i->called().empty(); });
}

int ChooseLanes(const Computation& body, const std::vector<KernelResult>& results, int64_t elements) {
  int widest = 1;
  for (const auto& i : body.instructions()) {
    if (i->Is(Opcode::kTuple)) continue;
    if (!i->shape().IsArray() || IsComplex(i->shape().element_type()) || IsSubByte(i->shape().element_type())) return 0;
    widest = std::max(widest, ByteWidth(i->shape().element_type()));
  }
  const int lanes = std::min(kVectorBytes / widest, 8);
  const Shape& shape = results[0].shape;
  if (lanes < 2 || elements % lanes != 0 || !CallsNothing(body)) return 0;
  if (IsElementwise(body, shape.dimensions())) return lanes;
  const bool rows = shape.rank() > 0 && shape.dimensions(shape.rank() - 1) % lanes == 0;
  return rows &&
                 std::all_of(results.begin(), results.end(),
                             [&](const KernelResult& r) { return r.shape.dimensions() == shape.dimensions(); }) &&
                 IsElementwiseAlongRows(body)
             ? lanes
             : 0;
}

absl::StatusOr<KernelPlan> PlanElements(const Computation& body, const std::vector<KernelResult>& results) {
  int64_t largest = 0;
  bool equal = true;
  for (const KernelResult& r : results) {
    if (!r.shape.IsArray())
      return absl::UnimplementedError(absl::StrCat(r.instruction->name(), ": a result is no array"));
    largest = std::max(largest, r.shape.num_elements());
    equal = equal && r.shape.num_elements() == results[0].shape.num_elements();
  }
  KernelPlan plan;
  const int lanes = equal ? ChooseLanes(body, results, largest) : 0;
  plan.blocks = CountBlocks(largest, int64_t{plan.threads} * std::max(1, lanes));
  plan.note = absl::StrCat("elements: ", largest);
  if (lanes > 0) absl::StrAppend(&plan.note, ", ", lanes, " in each thread");
  plan.kind = ElementsPlan{lanes};
  return plan;
}

// ---- Convolutions and dots.

KernelPlan PlanConvolution(const Instruction& convolution) {
  KernelPlan plan;
  const int lanes = ChooseConvolutionLanes(convolution);
  plan.kind = ConvolutionPlan{lanes};
  const int64_t elements = convolution.shape().num_elements();
  const int64_t each = CountConvolutionPositions(convolution, lanes) * std::max(1, lanes);
  plan.blocks = CountBlocks(elements, plan.threads * each);
  plan.note = absl::StrCat("convolution: ", elements, " elements");
  if (each > 1) absl::StrAppend(&plan.note, ", ", each, " in each thread");
  return plan;
}

// Whether operands of f32 may be rounded to tf32: the dot's algorithm says so, or the client permits it for products of
// the default precision. In an algorithm, the invalid type stands for tf32.
bool PermitsTf32(const Instruction& dot, const GpuTarget& target) {
  if (dot.attrs().Has(AttrId::kDotAlgorithm)) {
    const DotAlgorithm& a = dot.attrs().Get<DotAlgorithm>(AttrId::kDotAlgorithm);
    if (a != DotAlgorithm{})
      return a.lhs_type == PrimitiveType::kInvalid && a.rhs_type == PrimitiveType::kInvalid &&
             a.primitive_operations == 1;
  }
  const Precisions& precisions = dot.attrs().Get<Precisions>(AttrId::kOperandPrecision);
  return target.tf32_products &&
         std::all_of(precisions.begin(), precisions.end(), [](Precision p) { return p == Precision::kDefault; });
}

absl::StatusOr<KernelPlan> PlanDot(const DotSite& site, const GpuTarget& target) {
  if (site.body != nullptr) RETURN_IF_ERROR(CanEvaluateAll(*site.body, site.dot));
  ASSIGN_OR_RETURN(const DotProblem dot, MakeDotProblem(site));
  KernelPlan plan;
  DotPlan& kind = plan.kind.emplace<DotPlan>();
  kind.site = site;
  MatrixTile& tile = kind.tile;
  if (dot.lhs_type == dot.rhs_type)
    kind.matrix = FindMatrixStep(target, dot.lhs_type, dot.sum_type(), PermitsTf32(*site.dot, target));
  if (kind.matrix != nullptr) {
    kind.matrix = PreferGroups(dot, *kind.matrix, target);
    tile = ChooseMatrixTile(dot, *kind.matrix, target);
    if (!OffsetsFit(dot, tile, *kind.matrix)) kind.matrix = nullptr;
  }
  if (kind.matrix != nullptr) {
    plan.threads = static_cast<uint32_t>(tile.waves() * kind.matrix->wave_size());
  } else {
    const ProductTile chosen = ChooseProductTile(dot);
    tile.rows = chosen.rows, tile.columns = chosen.columns;
  }
  const int64_t tiles = dot.batch_size() * CeilDiv(dot.m, tile.rows) * CeilDiv(dot.n, tile.columns);
  plan.blocks = CountBlocks(tiles, 1);
  plan.note = absl::StrCat(kind.matrix != nullptr ? "matrix product: " : "product: ", dot.batch_size(), " x ", dot.m,
                           " x ", dot.n, " x ", dot.k, ", ", tiles, " tiles of ", tile.rows, " x ", tile.columns,
                           tile.stages > 0 ? absl::StrCat(", ", tile.stages, " slices") : "",
                           dot.lhs_gather ? ", of windows" : "",
                           kind.matrix != nullptr && kind.matrix->family == MatrixFamily::kGroup ? ", by groups" : "",
                           site.body != nullptr ? ", with what follows it" : "");
  return plan;
}

}  // namespace

const MatrixStep* KernelPlan::matrix() const {
  if (const auto* dot = std::get_if<DotPlan>(&kind)) return dot->matrix;
  if (const auto* attention = std::get_if<AttentionPlan>(&kind)) return attention->matrix;
  return nullptr;
}

uint32_t CountBlocks(int64_t work, int64_t per_block) {
  return static_cast<uint32_t>(std::clamp<int64_t>(CeilDiv(work, per_block), 1, kMaxBlocks));
}

std::vector<KernelResult> ListKernelResults(const Computation& body) {
  std::vector<KernelResult> results;
  auto add = [&](const Instruction* i) {
    if (i->Is(Opcode::kGetTupleElement)) {
      results.push_back({i->operand(0), static_cast<int>(i->tuple_index()), i->shape()});
    } else if (i->shape().IsTuple()) {
      for (int64_t k = 0; k < i->shape().tuple_size(); ++k)
        results.push_back({i, static_cast<int>(k), i->shape().tuple_shapes(k)});
    } else {
      results.push_back({i, 0, i->shape()});
    }
  };
  const Instruction* root = body.root();
  if (!root->Is(Opcode::kTuple)) {
    add(root);
  } else {
    for (const Instruction* i : root->operands()) add(i);
  }
  return results;
}

bool IsSharedByBlock(const Instruction& reduce) {
  if (!reduce.Is(Opcode::kReduce)) return false;
  const codegen::Combiner combiner = codegen::AnalyzeCombiner(*reduce.called(0));
  if (!codegen::MayReorder(reduce, combiner)) return false;
  int64_t reduced = 1;
  for (const int64_t d : compiler::SortedDims(reduce)) reduced *= reduce.operand(0)->shape().dimensions(d);
  return reduced >= kMinSharedElements;
}

bool ReadsOnlyOwnElement(const Computation& body, const Instruction* parameter) {
  for (const KernelResult& result : ListKernelResults(body)) {
    const Shape& shape = result.shape;
    if (shape.dimensions() != parameter->shape().dimensions()) return false;
    compiler::VarTable vars;
    compiler::Index index;
    for (const int64_t n : shape.dimensions()) index.push_back(compiler::Affine::Var(vars.Loop(n)));
    const compiler::AccessWalk::ArraySet none;
    compiler::AccessWalk walk(vars, none);
    walk.Visit(result.instruction, index);
    walk.Finish();
    if (walk.too_complex()) return false;
    for (const compiler::Access& a : walk.accesses()) {
      if (a.array == parameter && (a.index != index || a.reduce_depth > 0)) return false;
    }
  }
  return true;
}

int64_t ChooseRowsOfGroup(const Instruction& reduce) {
  const Shape& shape = reduce.operand(0)->shape();
  int64_t neighbours = 1;
  for (int64_t d = shape.rank(); d-- > 0 && !compiler::IsReducedDim(reduce, d);) neighbours *= shape.dimensions(d);
  // The last group of the neighbours may have fewer; small ones should not cost most of the threads.
  return neighbours >= 64 ? 64 : neighbours >= 16 ? 16 : 1;
}

absl::StatusOr<KernelPlan> PlanFusion(const Computation& body) {
  RETURN_IF_ERROR(CanEvaluateAll(body));
  const std::vector<KernelResult> results = ListKernelResults(body);
  if (static_cast<int64_t>(body.parameters().size() + results.size()) > kMaxArrays) {
    return absl::UnimplementedError(absl::StrCat(body.name(), ": ", body.parameters().size() + results.size(),
                                                 " arrays; a kernel takes at most ", kMaxArrays));
  }
  for (auto* planner : {&PlanRows, &PlanUpdate, &PlanTranspose}) {
    if (std::optional<KernelPlan> plan = planner(body)) return *std::move(plan);
  }
  return PlanElements(body, results);
}

absl::StatusOr<KernelPlan> PlanOperation(const Instruction& operation, const GpuTarget& target) {
  switch (operation.opcode()) {
    case Opcode::kScatter:
      return PlanScatter(operation);
    case Opcode::kSort:
      return PlanSort(operation);
    case Opcode::kTopK:
      return PlanTopK(operation);
    case Opcode::kReduceWindow:
      return PlanScan(operation);
    case Opcode::kSelectAndScatter:
      return PlanSelectAndScatter(operation);
    case Opcode::kFft:
      return PlanFft(operation);
    case Opcode::kCholesky:
      return PlanCholesky(operation);
    case Opcode::kTriangularSolve:
      return PlanTriangularSolve(operation);
    default:
      break;
  }
  if (const std::optional<compiler::Attention> attention = compiler::AsAttention(operation))
    return PlanAttention(*attention, target);
  if (const std::optional<DotSite> site = FindDot(operation)) return PlanDot(*site, target);
  if (operation.Is(Opcode::kConvolution)) return PlanConvolution(operation);
  return absl::UnimplementedError(absl::StrCat(operation.name(), ": no dot"));
}

}  // namespace backplane::hip
