#include "plugins/tpu_emulator/program/kernel_work.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/analysis/process_groups.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/array/contraction.h"
#include "plugins/tpu_emulator/program/cut_into_kernels.h"
#include "plugins/tpu_emulator/program/layouts.h"

namespace backplane::tpu {
namespace {

// f32 operations that one of f64 takes as a pair of f32, counted in what the machine's compiler makes of each; 0 where
// the type is another one.
double PairOperations(const Instruction& i) {
  const Shape& shape = i.Is(Opcode::kCompare) ? i.operand(0)->shape() : i.shape();
  if (!shape.IsArray() || ComplexPart(shape.element_type()) != PrimitiveType::kF64) return 0;
  const bool complex = IsComplex(shape.element_type());
  switch (i.opcode()) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
      return complex ? 50 : 25;
    case Opcode::kMultiply:
      return complex ? 132 : 35;
    case Opcode::kDivide:
      return complex ? 300 : 44;
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
      return 54;
    case Opcode::kCompare:
      return 5;
    default:
      return VectorCost(i.opcode()) >= 8 ? 340 : 0;  // as the exponential
  }
}

// Registers of vector operations by class.
class VectorCount {
 public:
  explicit VectorCount(const Machine& machine)
      : lane_words_(machine.tile_rows * machine.tile_lanes), lanes_(machine.tile_lanes) {}

  int64_t Registers(const Shape& shape) const {
    if (!shape.IsArray()) return 0;
    const int64_t words = BitWidth(shape.element_type()) > 32 ? 2 : 1;
    return std::max<int64_t>(1, (PaddedElements(shape) * words + lane_words_ - 1) / lane_words_);
  }
  void Add(VectorOp op, double registers) { counts_[static_cast<size_t>(op)] += registers; }

  // One instruction's own work. What a product costs is not counted here.
  void AddInstruction(const Instruction& i) {
    switch (i.opcode()) {
      case Opcode::kParameter:
      case Opcode::kConstant:
      case Opcode::kBroadcast:
      case Opcode::kTuple:
      case Opcode::kGetTupleElement:
      case Opcode::kBitcast:
      case Opcode::kBitcastConvert:
      case Opcode::kDot:
      case Opcode::kConvolution:
        return;
      case Opcode::kReduce:
        return AddReduce(i);
      case Opcode::kReduceWindow: {
        int64_t points = 1;
        for (const WindowDimension& d : i.window().dimensions) points *= d.size;
        return Add(VectorOp::kSimple,
                   static_cast<double>(Registers(i.shape())) * static_cast<double>(points) * Arithmetic(*i.called(0)));
      }
      case Opcode::kSelectAndScatter: {
        int64_t points = 1;
        for (const WindowDimension& d : i.window().dimensions) points *= d.size;
        return Add(VectorOp::kSimple,
                   static_cast<double>(Registers(i.operand(1)->shape())) * static_cast<double>(2 * points));
      }
      case Opcode::kReshape:
        if (KeepsTiles(i.operand(0)->shape(), i.shape())) return;
        return Add(VectorOp::kRelayout, static_cast<double>(Registers(i.shape())));
      case Opcode::kTranspose:
      case Opcode::kReverse:
      case Opcode::kGather:
        return Add(VectorOp::kRelayout, static_cast<double>(Registers(i.shape())));
      case Opcode::kCopy: {
        const Shape& from = i.operand(0)->shape();
        const bool same = !from.has_layout() || !i.shape().has_layout() ||
                          from.layout().minor_to_major == i.shape().layout().minor_to_major;
        return Add(same ? VectorOp::kMove : VectorOp::kRelayout, static_cast<double>(Registers(i.shape())));
      }
      case Opcode::kSlice:
      case Opcode::kPad:
      case Opcode::kConcatenate:
      case Opcode::kDynamicSlice:
        return Add(MovesLanes(i) ? VectorOp::kRelayout : VectorOp::kMove, static_cast<double>(Registers(i.shape())));
      case Opcode::kDynamicUpdateSlice:
        return Add(VectorOp::kMove, static_cast<double>(Registers(i.operand(1)->shape())));
      case Opcode::kScatter:
        return Add(VectorOp::kRelayout, 2 * static_cast<double>(Registers(i.operand(i.operand_count() - 1)->shape())));
      case Opcode::kSort:
        return AddSort(i);
      case Opcode::kRng:
      case Opcode::kRngBitGenerator: {
        // Twenty rounds of add, rotate and exclusive or.
        double registers = 0;
        ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
          registers += static_cast<double>(Registers(leaf));
        });
        return Add(VectorOp::kSimple, 60 * registers);
      }
      case Opcode::kCustomCall:
      case Opcode::kInfeed:
      case Opcode::kOutfeed:
        return;
      default:
        break;
    }
    if (const double pair = PairOperations(i); pair > 0) {
      const Shape& shape = i.Is(Opcode::kCompare) ? i.operand(0)->shape() : i.shape();
      return Add(VectorOp::kSimple, pair * static_cast<double>(Registers(shape)) / 2);  // which counts two words each
    }
    if (i.info().Has(OpTrait::kElementwise)) {
      const double cost = VectorCost(i.opcode());
      VectorOp op = cost >= 8   ? VectorOp::kTranscendental
                    : cost >= 4 ? VectorOp::kDivide
                    : cost >= 2 ? VectorOp::kConvert
                                : VectorOp::kSimple;
      int64_t registers = Registers(i.shape());
      if (i.Is(Opcode::kConvert) && i.operand(0)->shape().IsArray()) {
        const int from = BitWidth(i.operand(0)->shape().element_type()), to = BitWidth(i.shape().element_type());
        if (std::min(from, 32) == std::min(to, 32)) op = VectorOp::kSimple;
      }
      return Add(op, static_cast<double>(registers));
    }
    // Cholesky, Fourier transforms and the like: as much arithmetic as their definition says.
    Instruction::ContextStorage storage;
    const Cost cost = CostOf(i.Context(storage), i.shape());
    Add(VectorOp::kSimple, cost.flops / static_cast<double>(lane_words_));
    Add(VectorOp::kTranscendental, cost.transcendentals / static_cast<double>(lane_words_));
  }

  std::vector<VectorWork> Take() const {
    std::vector<VectorWork> work;
    for (size_t op = 0; op < counts_.size(); ++op) {
      if (counts_[op] <= 0) continue;
      const double most = 9e18;
      work.push_back({static_cast<VectorOp>(op), static_cast<int64_t>(std::min(most, std::ceil(counts_[op])))});
    }
    return work;
  }

  // Elementwise operations that combine two elements.
  static double Arithmetic(const Computation& c) {
    double count = 0;
    for (const auto& i : c.instructions()) {
      const double pair = PairOperations(*i);  // a register holds half as many of them
      if (i->info().Has(OpTrait::kElementwise)) count += pair > 0 ? pair / 2 : VectorCost(i->opcode());
    }
    return std::max(1.0, count);
  }

 private:
  void AddReduce(const Instruction& i) {
    for (int64_t k = 0; k < i.operand_count() / 2; ++k) {
      const Shape& operand = i.operand(k)->shape();
      const double registers = static_cast<double>(Registers(operand));
      if (k == 0) Add(VectorOp::kSimple, registers * Arithmetic(*i.called(0)));
      if (!operand.has_layout() || operand.rank() == 0) continue;
      const int64_t minor = operand.layout().minor_to_major[0];
      if (std::find(i.dimensions().begin(), i.dimensions().end(), minor) == i.dimensions().end()) continue;
      // Registers along the lanes are added first, then the lanes of one.
      const int64_t along = std::max<int64_t>(1, (operand.dimensions(minor) + lanes_ - 1) / lanes_);
      Add(VectorOp::kCrossLane, registers / static_cast<double>(along));
    }
  }

  // A sorting network: log n (log n + 1) / 2 steps, each a comparison and two selections of each operand.
  void AddSort(const Instruction& i) {
    const int64_t n = i.operand(0)->shape().dimensions(i.dimensions().empty() ? 0 : i.dimensions()[0]);
    const double log = std::ceil(std::log2(static_cast<double>(std::max<int64_t>(2, n))));
    double registers = 0;
    for (const Instruction* o : i.operands()) registers += static_cast<double>(Registers(o->shape()));
    Add(VectorOp::kSimple, 3 * registers * log * (log + 1) / 2);
  }

  // Elements change their lanes.
  static bool MovesLanes(const Instruction& i) {
    const Shape& s = i.shape();
    if (!s.has_layout() || s.rank() == 0) return false;
    const int64_t minor = s.layout().minor_to_major[0];
    switch (i.opcode()) {
      case Opcode::kConcatenate:
        return i.dimensions()[0] == minor;
      case Opcode::kSlice:
        return i.slices()[static_cast<size_t>(minor)].start != 0 || i.slices()[static_cast<size_t>(minor)].stride != 1;
      case Opcode::kPad:
        return i.padding()[static_cast<size_t>(minor)].low != 0 ||
               i.padding()[static_cast<size_t>(minor)].interior != 0;
      case Opcode::kDynamicSlice:
        return s.dimensions(minor) != i.operand(0)->shape().dimensions(minor);
      default:
        return false;
    }
  }

  const int64_t lane_words_, lanes_;
  std::array<double, 7> counts_{};
};

// The type that the array multiplies, how many real products an element takes, and passes.
struct ProductType {
  PrimitiveType lhs, rhs;
  int64_t products = 1;
  int passes = 1;
};
ProductType ProductTypeOf(const Instruction& i, std::vector<std::string>* notes) {
  ProductType t{i.operand(0)->shape().element_type(), i.operand(1)->shape().element_type()};
  const bool wide = BitWidth(ComplexPart(t.lhs)) > 32 || BitWidth(ComplexPart(t.rhs)) > 32;
  if (IsComplex(t.lhs) || IsComplex(t.rhs)) t.products *= 4;
  if (wide) {
    t.products *= 4;
    notes->push_back(
        "Products of 64-bit numbers are timed as four of 32-bit ones at highest precision; no answer of the maker's "
        "compiler stands behind that.");
  }
  const auto narrowed = [](PrimitiveType p) {
    p = ComplexPart(p);
    if (BitWidth(p) > 32) return IsFloat(p) ? PrimitiveType::kF32 : PrimitiveType::kS32;
    return p == PrimitiveType::kPred ? PrimitiveType::kS8 : p;
  };
  t.lhs = narrowed(t.lhs);
  t.rhs = narrowed(t.rhs);
  const bool floats = IsFloat(i.operand(0)->shape().element_type()) && IsFloat(i.operand(1)->shape().element_type());
  t.passes = wide ? 6 : floats ? std::max(1, PassesOf(i)) : 1;
  return t;
}

MatmulWork WorkOfDot(const Instruction& i, const ProductType& type) {
  const DotDimensions& d = i.dot_dims();
  const Shape &lhs = i.operand(0)->shape(), &rhs = i.operand(1)->shape();
  MatmulWork w;
  for (int64_t b : d.lhs_batch) w.batch *= lhs.dimensions(b);
  w.k = 1;
  for (int64_t c : d.lhs_contracting) w.k *= lhs.dimensions(c);
  w.m = std::max<int64_t>(1, lhs.num_elements() / std::max<int64_t>(1, w.batch * w.k));
  w.n = std::max<int64_t>(1, rhs.num_elements() / std::max<int64_t>(1, w.batch * w.k));
  w.lhs = type.lhs;
  w.rhs = type.rhs;
  w.passes = type.passes;
  w.batch *= type.products;
  if (rhs.has_layout() && rhs.rank() > 0) {
    const int64_t minor = rhs.layout().minor_to_major[0];
    w.rhs_inner_minor = std::find(d.rhs_contracting.begin(), d.rhs_contracting.end(), minor) != d.rhs_contracting.end();
  }
  return w;
}

MatmulWork WorkOfConvolution(const Instruction& i, const ProductType& type, const Machine& machine) {
  const ConvolutionDimensions& d = i.conv_dims();
  const Shape &input = i.operand(0)->shape(), &kernel = i.operand(1)->shape(), &output = i.shape();
  ConvolutionWork w;
  const auto product = [](const Shape& s, const Ints& dims) {
    int64_t p = 1;
    for (int64_t x : dims) p *= s.dimensions(x);
    return p;
  };
  const int64_t batch_groups = i.attrs().GetInt(AttrId::kBatchGroupCount, 1);
  w.batch = output.dimensions(d.output_batch);
  w.output_points = product(output, d.output_spatial);
  w.window_points = product(kernel, d.kernel_spatial);
  w.input_points = product(input, d.input_spatial);
  w.input_features = input.dimensions(d.input_feature);
  w.output_features = output.dimensions(d.output_feature);
  w.groups = i.attrs().GetInt(AttrId::kFeatureGroupCount, 1);
  if (batch_groups > 1) {
    w.groups = batch_groups;
    w.input_features *= batch_groups;
  }
  w.input = type.lhs;
  w.filter = type.rhs;
  w.passes = type.passes;
  MatmulWork m = ConvolutionAsMatmul(machine, w);
  m.batch *= type.products;
  return m;
}

void AddFlops(const Instruction& i, KernelDescription& d) {
  if (i.Is(Opcode::kParameter) || i.Is(Opcode::kConstant) || i.Is(Opcode::kTuple)) return;
  Instruction::ContextStorage storage;
  const Cost cost = CostOf(i.Context(storage), i.shape());
  d.flops += cost.flops;
  d.transcendentals += cost.transcendentals;
}

bool IsListed(Opcode o) {
  return o != Opcode::kParameter && o != Opcode::kConstant && o != Opcode::kTuple && o != Opcode::kBroadcast &&
         o != Opcode::kBitcast && o != Opcode::kGetTupleElement;
}

std::string ContentsOf(const Computation& c) {
  std::map<std::string, int64_t> counts;
  for (const auto& i : c.instructions()) {
    if (IsListed(i->opcode())) ++counts[std::string(OpName(i->opcode()))];
  }
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return absl::StrJoin(sorted, ", ", [](std::string* out, const std::pair<std::string, int64_t>& p) {
    absl::StrAppend(out, p.second > 1 ? absl::StrCat(p.second, " ") : "", p.first);
  });
}

int64_t LeafBytes(const Shape& shape) {
  int64_t bytes = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) { bytes += PaddedBytes(leaf); });
  return bytes;
}

// ---- fusions

void DescribeFusion(const Instruction& fusion, const Machine& machine, KernelDescription& d) {
  const Computation& body = *fusion.called(0);
  const Instruction *contraction = nullptr, *reduction = nullptr;
  bool computes = false, moves = false;
  VectorCount vector(machine);
  for (const auto& owned : body.instructions()) {
    const Instruction& i = *owned;
    if (i.Is(Opcode::kDot) || i.Is(Opcode::kConvolution)) contraction = &i;
    if (i.Is(Opcode::kReduce) || i.Is(Opcode::kReduceWindow) || i.Is(Opcode::kSelectAndScatter)) reduction = &i;
    const bool elementwise = i.info().Has(OpTrait::kElementwise);
    computes |= elementwise;
    moves |= !elementwise && IsListed(i.opcode()) && !i.Is(Opcode::kIota);
    vector.AddInstruction(i);
    AddFlops(i, d);
  }
  d.work.vector = vector.Take();
  d.category = contraction != nullptr ? contraction->Is(Opcode::kDot) ? "matmul" : "convolution"
               : reduction != nullptr ? "reduction"
               : computes             ? "elementwise"
                                      : "movement";
  d.contents = ContentsOf(body);

  const Instruction* root = body.root();
  const auto output = [root](size_t k) {
    return root->Is(Opcode::kTuple) ? root->operand(static_cast<int64_t>(k)) : root;
  };
  for (size_t k = 0; k < d.results.size(); ++k) {
    if (output(k)->Is(Opcode::kDynamicUpdateSlice)) {
      d.results[k].bytes = PaddedBytes(output(k)->operand(1)->shape());
      d.results[k].in_place = true;
    }
  }
  for (size_t k = 0; k < d.operands.size(); ++k) {
    const Instruction* p = body.parameter(static_cast<int64_t>(k));
    KernelPort& port = d.operands[k];
    int64_t bytes = 0;
    for (const Instruction* user : p->users()) {
      if (user->Is(Opcode::kSlice) || user->Is(Opcode::kDynamicSlice)) {
        bytes += user->operand(0) == p ? PaddedBytes(user->shape()) : port.bytes;
      } else if (user->Is(Opcode::kDynamicUpdateSlice) && user->operand(0) == p) {
        port.in_place = true;
      } else {
        bytes += port.bytes;
      }
    }
    port.bytes = std::min(port.bytes, bytes);
    port.may_share = !moves && !p->shape().IsTuple();
  }
  if (contraction == nullptr) return;

  const ProductType type = ProductTypeOf(*contraction, &d.notes);
  MatmulWork work =
      contraction->Is(Opcode::kDot) ? WorkOfDot(*contraction, type) : WorkOfConvolution(*contraction, type, machine);
  // What each operand is made of; the right operand's first, so that a parameter of both is the left one's.
  for (int side : {1, 0}) {
    std::vector<const Instruction*> pending = {contraction->operand(side)};
    absl::flat_hash_set<const Instruction*> seen;
    int64_t bytes = 0;
    while (!pending.empty()) {
      const Instruction* at = pending.back();
      pending.pop_back();
      if (!seen.insert(at).second) continue;
      if (at->Is(Opcode::kParameter)) {
        KernelPort& port = d.operands[static_cast<size_t>(at->parameter_number())];
        port.product = side;
        bytes += port.bytes;
      }
      pending.insert(pending.end(), at->operands().begin(), at->operands().end());
    }
    if (!contraction->operand(side)->Is(Opcode::kParameter)) (side == 0 ? work.lhs_bytes : work.rhs_bytes) = bytes;
  }
  work.result = contraction->shape().element_type();
  for (size_t k = 0; k < d.results.size(); ++k) {
    if (output(k)->shape().num_elements() != contraction->shape().num_elements()) continue;
    d.results[k].product = 2;
    work.result = output(k)->shape().element_type();
    break;
  }
  if (BitWidth(work.result) > 32) work.result = PrimitiveType::kF32;
  d.work.matmul = work;
}

// ---- collectives and the rest

std::optional<CollectiveKind> CollectiveKindOf(Opcode o) {
  switch (o) {
    case Opcode::kAllReduce:
      return CollectiveKind::kAllReduce;
    case Opcode::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    case Opcode::kAllGather:
      return CollectiveKind::kAllGather;
    case Opcode::kAllToAll:
    case Opcode::kRaggedAllToAll:
      return CollectiveKind::kAllToAll;
    case Opcode::kCollectivePermute:
    case Opcode::kCollectiveBroadcast:
      return CollectiveKind::kPermute;
    default:
      return std::nullopt;
  }
}

void DescribeCollective(const Instruction& i, CollectiveKind kind, absl::Span<const int64_t> torus,
                        KernelDescription& d) {
  CollectiveWork work;
  work.kind = kind;
  int64_t operands = 0;
  for (const Instruction* o : i.operands()) operands += LeafBytes(o->shape());
  work.bytes = kind == CollectiveKind::kAllGather ? LeafBytes(i.shape()) : operands;
  if (i.Is(Opcode::kCollectivePermute) || i.Is(Opcode::kRaggedAllToAll)) {
    work.group = 2;
  } else {
    const ModuleConfig& config = i.parent()->parent()->config();
    absl::StatusOr<ProcessGroups> groups = ProcessGroupsOf(i, config.num_replicas, config.num_partitions);
    if (groups.ok()) {
      for (const Ints& group : *groups) work.group = std::max<int64_t>(work.group, static_cast<int64_t>(group.size()));
    }
  }
  if (i.Is(Opcode::kRaggedAllToAll)) {
    d.notes.push_back("A ragged all-to-all is timed as an exchange of everything with one neighbour.");
  }
  // A group that is as large as several whole axes has their links.
  int64_t product = 1, axes = 0;
  for (int64_t size : torus) {
    if (size <= 1 || product >= work.group) continue;
    product *= size;
    ++axes;
  }
  work.axes = product == work.group ? std::max<int64_t>(1, axes) : 1;
  d.category = "collective";
  d.work.collective = work;
}

void DescribeSingle(const Instruction& i, const Machine& machine, absl::Span<const int64_t> torus,
                    KernelDescription& d) {
  VectorCount vector(machine);
  vector.AddInstruction(i);
  d.work.vector = vector.Take();
  AddFlops(i, d);
  d.contents = std::string(OpName(i.opcode()));
  for (KernelPort& port : d.operands) port.may_share = i.info().Has(OpTrait::kElementwise) || i.Is(Opcode::kSort);
  if (auto kind = CollectiveKindOf(i.opcode())) {
    for (KernelPort& port : d.operands) port.may_share = *kind != CollectiveKind::kAllGather;
    return DescribeCollective(i, *kind, torus, d);
  }
  switch (i.opcode()) {
    case Opcode::kCopy:
      d.category = "copy";
      for (KernelPort& port : d.operands) port.may_share = false;
      return;
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter:
      d.category = "reduction";
      return;
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
      d.operands[0].bytes = std::min(d.operands[0].bytes, PaddedBytes(i.shape()));
      d.category = "movement";
      return;
    case Opcode::kDynamicUpdateSlice:
      d.operands[0].bytes = 0;
      d.operands[0].in_place = true;
      d.results[0].bytes = PaddedBytes(i.operand(1)->shape());
      d.results[0].in_place = true;
      d.category = "movement";
      return;
    case Opcode::kGather:
      d.operands[0].bytes = std::min(d.operands[0].bytes, PaddedBytes(i.shape()));
      d.category = "gather";
      return;
    case Opcode::kScatter: {
      // Read, combine and write what the updates name.
      int64_t updates = 0;
      const int64_t n = i.operand_count() / 2;
      for (int64_t k = 0; k < n; ++k) {
        d.operands[static_cast<size_t>(k)].in_place = true;
        const int64_t bytes = PaddedBytes(i.operand(n + 1 + k)->shape());
        d.operands[static_cast<size_t>(k)].bytes = std::min(d.operands[static_cast<size_t>(k)].bytes, bytes);
        updates += bytes;
      }
      for (KernelPort& port : d.results) {
        port.bytes = std::min(port.bytes, updates);
        port.in_place = true;
      }
      d.category = "scatter";
      return;
    }
    case Opcode::kSort:
    case Opcode::kTopK:
      d.category = "sort";
      return;
    case Opcode::kRng:
    case Opcode::kRngBitGenerator:
      d.category = "random";
      return;
    case Opcode::kCustomCall:
      d.category = "custom-call";
      d.notes.push_back(absl::StrCat("What the custom call ", i.custom_call_target(),
                                     " computes is not timed, only what it reads and writes."));
      return;
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
      d.category = "transfer";
      d.notes.push_back("Transfers between the host and the device are timed as reads and writes of HBM only.");
      return;
    case Opcode::kReshape:
    case Opcode::kBroadcast:
    case Opcode::kIota:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
    case Opcode::kTranspose:
      d.category = "movement";
      return;
    default:
      d.category = i.info().Has(OpTrait::kElementwise) ? "elementwise" : std::string(OpName(i.opcode()));
  }
}

}  // namespace

bool IsKernel(const Instruction& i) {
  switch (i.opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kBitcast:
    case Opcode::kOptimizationBarrier:
    case Opcode::kAfterAll:
    case Opcode::kAddDependency:
    case Opcode::kDomain:
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
    case Opcode::kCopyStart:  // the schedule's own (write_prefetches.h): beside other kernels
    case Opcode::kCopyDone:
      return false;
    default:
      break;
  }
  if (IsScalarUnitOp(i)) return false;
  int64_t elements = 0;
  ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (leaf.IsArray()) elements += leaf.num_elements();
  });
  return elements > 0 || i.HasSideEffect();
}

KernelDescription Describe(const Instruction& i, const Machine& machine, absl::Span<const int64_t> torus) {
  KernelDescription d;
  for (const Instruction* o : i.operands()) d.operands.push_back({LeafBytes(o->shape())});
  ForEachLeaf(i.shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (leaf.IsArray()) d.results.push_back({PaddedBytes(leaf)});
  });
  if (i.Is(Opcode::kFusion)) {
    DescribeFusion(i, machine, d);
  } else {
    DescribeSingle(i, machine, torus, d);
  }
  return d;
}

}  // namespace backplane::tpu
