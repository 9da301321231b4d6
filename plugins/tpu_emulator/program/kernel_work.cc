#include "plugins/tpu_emulator/program/kernel_work.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/analysis/process_groups.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/array/contraction.h"
#include "plugins/tpu_emulator/program/layouts.h"
#include "plugins/tpu_emulator/program/operation_traits.h"
#include "plugins/tpu_emulator/program/vector_work.h"

namespace backplane::tpu {
namespace {

// The operand types that the array multiplies, the number of real products per element, and the passes.
struct ProductType {
  PrimitiveType lhs, rhs;
  int64_t products = 1;
  int passes = 1;
};
ProductType GetProductType(const Instruction& i, std::vector<std::string>* notes) {
  ProductType t{i.operand(0)->shape().element_type(), i.operand(1)->shape().element_type()};
  const bool wide = BitWidth(ComplexPart(t.lhs)) > 32 || BitWidth(ComplexPart(t.rhs)) > 32;
  if (IsComplex(t.lhs) || IsComplex(t.rhs)) t.products *= 4;
  if (wide) {
    t.products *= 4;
    notes->push_back(
        "Products of 64-bit numbers are timed as four of 32-bit ones at highest precision; this was not compared "
        "with the maker's compiler.");
  }
  const auto narrowed = [](PrimitiveType p) {
    p = ComplexPart(p);
    if (BitWidth(p) > 32) return IsFloat(p) ? PrimitiveType::kF32 : PrimitiveType::kS32;
    return p == PrimitiveType::kPred ? PrimitiveType::kS8 : p;
  };
  t.lhs = narrowed(t.lhs);
  t.rhs = narrowed(t.rhs);
  const bool floats = IsFloat(i.operand(0)->shape().element_type()) && IsFloat(i.operand(1)->shape().element_type());
  t.passes = wide ? 6 : floats ? std::max(1, CountPasses(i)) : 1;
  return t;
}

MatmulWork MakeDotWork(const Instruction& i, const ProductType& type) {
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

MatmulWork MakeConvolutionWork(const Instruction& i, const ProductType& type, const Machine& machine) {
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
  MatmulWork m = ConvertConvolutionToMatmul(machine, w);
  m.batch *= type.products;
  return m;
}

void AddFlops(const Instruction& i, KernelDescription& d) {
  if (i.Is(Opcode::kParameter) || i.Is(Opcode::kConstant) || i.Is(Opcode::kTuple)) return;
  Instruction::ContextStorage storage;
  const Cost cost = EstimateCost(i.Context(storage), i.shape());
  d.flops += cost.flops;
  d.transcendentals += cost.transcendentals;
}

bool IsListedInContents(Opcode o) {
  return o != Opcode::kParameter && o != Opcode::kConstant && o != Opcode::kTuple && o != Opcode::kBroadcast &&
         o != Opcode::kBitcast && o != Opcode::kGetTupleElement;
}

std::string DescribeContents(const Computation& c) {
  std::map<std::string, int64_t> counts;
  for (const auto& i : c.instructions()) {
    if (IsListedInContents(i->opcode())) ++counts[std::string(OpName(i->opcode()))];
  }
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return absl::StrJoin(sorted, ", ", [](std::string* out, const std::pair<std::string, int64_t>& p) {
    absl::StrAppend(out, p.second > 1 ? absl::StrCat(p.second, " ") : "", p.first);
  });
}

int64_t PaddedLeafBytes(const Shape& shape) {
  int64_t bytes = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) { bytes += PaddedBytes(leaf); });
  return bytes;
}

// ---- Fusions.

void DescribeFusion(const Instruction& fusion, const Machine& machine, KernelDescription& d) {
  const Computation& body = *fusion.called(0);
  const Instruction *contraction = nullptr, *reduction = nullptr;
  bool computes = false, moves = false;
  VectorWorkCounter vector(machine);
  for (const auto& owned : body.instructions()) {
    const Instruction& i = *owned;
    if (IsContraction(i)) contraction = &i;
    if (IsReduction(i)) reduction = &i;
    const bool elementwise = i.info().Has(OpTrait::kElementwise);
    computes |= elementwise;
    moves |= !elementwise && IsListedInContents(i.opcode()) && !i.Is(Opcode::kIota);
    vector.AddInstruction(i);
    AddFlops(i, d);
  }
  d.work.vector = vector.ToWork();
  d.category = contraction != nullptr ? contraction->Is(Opcode::kDot) ? "matmul" : "convolution"
               : reduction != nullptr ? "reduction"
               : computes             ? "elementwise"
                                      : "movement";
  d.contents = DescribeContents(body);

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
    port.may_alias_result = !moves && !p->shape().IsTuple();
  }
  if (contraction == nullptr) return;

  const ProductType type = GetProductType(*contraction, &d.notes);
  MatmulWork work = contraction->Is(Opcode::kDot) ? MakeDotWork(*contraction, type)
                                                  : MakeConvolutionWork(*contraction, type, machine);
  // Find the parameters that each operand is made of. The right operand is first, so a parameter of both counts as
  // left.
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

// ---- Collectives and other instructions.

std::optional<CollectiveKind> GetCollectiveKind(Opcode o) {
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
  for (const Instruction* o : i.operands()) operands += PaddedLeafBytes(o->shape());
  work.bytes = kind == CollectiveKind::kAllGather ? PaddedLeafBytes(i.shape()) : operands;
  if (i.Is(Opcode::kCollectivePermute) || i.Is(Opcode::kRaggedAllToAll)) {
    work.group = 2;
  } else {
    const ModuleConfig& config = i.parent()->parent()->config();
    absl::StatusOr<ProcessGroups> groups = GetProcessGroups(i, config.num_replicas, config.num_partitions);
    if (groups.ok()) {
      for (const Ints& group : *groups) work.group = std::max<int64_t>(work.group, static_cast<int64_t>(group.size()));
    }
  }
  if (i.Is(Opcode::kRaggedAllToAll)) {
    d.notes.push_back("A ragged all-to-all is timed as a transfer of all data to one neighbour.");
  }
  // A group whose size is that of several whole axes uses the links of all of them.
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
  VectorWorkCounter vector(machine);
  vector.AddInstruction(i);
  d.work.vector = vector.ToWork();
  AddFlops(i, d);
  d.contents = std::string(OpName(i.opcode()));
  for (KernelPort& port : d.operands)
    port.may_alias_result = i.info().Has(OpTrait::kElementwise) || i.Is(Opcode::kSort);
  if (auto kind = GetCollectiveKind(i.opcode())) {
    for (KernelPort& port : d.operands) port.may_alias_result = *kind != CollectiveKind::kAllGather;
    return DescribeCollective(i, *kind, torus, d);
  }
  if (IsReduction(i)) {
    d.category = "reduction";
    return;
  }
  switch (i.opcode()) {
    case Opcode::kCopy:
      d.category = "copy";
      for (KernelPort& port : d.operands) port.may_alias_result = false;
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
      // Only the updated elements are read, combined and written.
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
      d.notes.push_back(absl::StrCat("The time of the custom call ", i.custom_call_target(),
                                     " covers its reads and writes only, not its computation."));
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
  const OpInfo& info = i.info();
  if (info.Has(OpTrait::kNoOp) || info.Has(OpTrait::kForwardsOperand) || info.Has(OpTrait::kControlFlow)) return false;
  switch (i.opcode()) {
    case Opcode::kBitcast:
    case Opcode::kAfterAll:
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
    case Opcode::kCopyStart:  // inserted by write_prefetches.h; they run in parallel with other kernels
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

KernelDescription DescribeKernel(const Instruction& i, const Machine& machine, absl::Span<const int64_t> torus) {
  KernelDescription d;
  for (const Instruction* o : i.operands()) d.operands.push_back({PaddedLeafBytes(o->shape())});
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
