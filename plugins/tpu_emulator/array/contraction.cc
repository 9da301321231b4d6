#include "plugins/tpu_emulator/array/contraction.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/types/literal_convert.h"
#include "core/types/physical_layout.h"
#include "core/types/status_macros.h"

namespace backplane::tpu {
namespace {

using Digits = absl::InlinedVector<PhysicalLayout::Digit, 2>;

constexpr int64_t kAlignment = 64, kTail = 64;
constexpr int64_t kCopyGrain = 1 << 15;  // elements copied per task

bool IsNarrowFloat(PrimitiveType t) { return IsFloat(t) && BitWidth(t) <= 16; }
bool IsSupportedType(PrimitiveType t) { return t == PrimitiveType::kF32 || IsNarrowFloat(t); }
// Whether the packing kernels read this type without a conversion.
bool IsReadDirectly(PrimitiveType t) {
  return t == PrimitiveType::kF32 || t == PrimitiveType::kBF16 || t == PrimitiveType::kF16;
}
int64_t AlignWithTail(int64_t bytes) {
  return bytes == 0 ? 0 : (bytes + kTail + kAlignment - 1) / kAlignment * kAlignment;
}

Digits MakeStrideDigits(int64_t stride) { return {PhysicalLayout::Digit{1, 1, stride}}; }
Digits GetDigits(const PhysicalLayout& layout, int64_t dim) {
  const std::vector<PhysicalLayout::Digit>& d = layout.digits(dim);
  return Digits(d.begin(), d.end());
}
// Whether the dimension has one stride throughout.
bool IsLinear(const PhysicalLayout& layout, int64_t dim) {
  Offsets probe;
  const int64_t n = layout.dims()[static_cast<size_t>(dim)];
  probe.Add(n, layout.digits(dim));
  std::vector<int64_t> offsets(static_cast<size_t>(n));
  probe.Fill(0, n, offsets.data());
  for (int64_t i = 2; i < n; ++i) {
    if (offsets[static_cast<size_t>(i)] != i * offsets[1]) return false;
  }
  return true;
}
int64_t GetStride(const PhysicalLayout& layout, int64_t dim) {
  const int64_t n = layout.dims()[static_cast<size_t>(dim)];
  if (n < 2) return 0;
  Offsets probe;
  probe.Add(n, layout.digits(dim));
  return probe.At(1);
}

// A free dimension of the product: its digits in an operand and in the result.
struct FreeDim {
  int64_t size;
  Digits in, out;
};
// Free dimensions may be in any order because no sum runs over them. The one with the smallest stride in the operand
// comes last.
void AddFreeDims(std::vector<FreeDim> dims, Offsets* in, Offsets* out) {
  auto step = [](const FreeDim& d) { return d.size == 1 || d.in.empty() ? INT64_MAX : d.in.back().stride; };
  std::stable_sort(dims.begin(), dims.end(), [&](const FreeDim& a, const FreeDim& b) { return step(a) > step(b); });
  for (const FreeDim& d : dims) {
    in->Add(d.size, d.in);
    out->Add(d.size, d.out);
  }
}

absl::StatusOr<PhysicalLayout> MakePhysicalLayout(const Shape& shape, const Layout* layout) {
  Shape s = shape.WithoutLayout();
  if (layout != nullptr) {
    s.set_layout(*layout);
  } else {
    s.set_row_major();
  }
  return PhysicalLayout::Of(s);
}

int64_t CountGroups(const Instruction& op) {
  if (!op.Is(Opcode::kConvolution)) return 1;
  return op.attrs().GetInt(AttrId::kFeatureGroupCount, 1) * op.attrs().GetInt(AttrId::kBatchGroupCount, 1);
}

}  // namespace

int64_t Contraction::Side::converted_bytes() const {
  return converted == PrimitiveType::kInvalid ? 0 : AlignWithTail(elements * ByteWidth(type));
}

int64_t Contraction::padded_copy_bytes() const {
  return padded_copy_ == nullptr ? 0 : AlignWithTail(padded_copy_->elements * ByteWidth(lhs_.type));
}

absl::Status CheckArraySupports(const Instruction& op) {
  for (const Instruction* operand : op.operands()) {
    if (!IsSupportedType(operand->shape().element_type())) {
      return absl::UnimplementedError(
          absl::StrCat("the matrix unit does not support ", Name(operand->shape().element_type()), " operands"));
    }
  }
  if (!IsSupportedType(op.shape().element_type())) {
    return absl::UnimplementedError(
        absl::StrCat("the matrix unit does not support ", Name(op.shape().element_type()), " results"));
  }
  return absl::OkStatus();
}

int CountPasses(const Instruction& op) {
  const PrimitiveType lhs = op.operand(0)->shape().element_type(), rhs = op.operand(1)->shape().element_type();
  if (IsNarrowFloat(lhs) && IsNarrowFloat(rhs)) return 0;
  if (op.attrs().Has(AttrId::kDotAlgorithm)) {
    const DotAlgorithm& a = op.attrs().Get<DotAlgorithm>(AttrId::kDotAlgorithm);
    const bool bf16 = a.lhs_type == PrimitiveType::kBF16 && a.rhs_type == PrimitiveType::kBF16;
    if (bf16) return a.primitive_operations >= 6 ? 6 : a.primitive_operations >= 3 ? 3 : 1;
    // These types keep more bits than one pass does. f16 and tf32 (which has no element type here) fit into two parts.
    if (a.lhs_type == PrimitiveType::kF32 || a.lhs_type == PrimitiveType::kF64) return 6;
    if (a.lhs_type == PrimitiveType::kF16) return 3;
    if (a.lhs_type == PrimitiveType::kInvalid) return a.primitive_operations >= 3 ? 6 : 3;
  }
  Precision most = Precision::kDefault;
  if (op.attrs().Has(AttrId::kOperandPrecision)) {
    for (Precision p : op.attrs().Get<Precisions>(AttrId::kOperandPrecision)) {
      if (p == Precision::kHighest || (p == Precision::kHigh && most == Precision::kDefault)) most = p;
    }
  }
  return most == Precision::kHighest ? 6 : most == Precision::kHigh ? 3 : 1;
}

bool SupportsLayout(const Instruction& op, int which, const Layout& layout) {
  const Shape& shape = which == 2 ? op.shape() : op.operand(which)->shape();
  const PrimitiveType type = shape.element_type();
  const absl::StatusOr<PhysicalLayout> physical = MakePhysicalLayout(shape, &layout);
  if (!physical.ok() || !physical->separable() || physical->element_bits() != 8 * ByteWidth(type)) return false;
  if (which != 2 && !IsReadDirectly(type)) return false;
  return which == 0 || CountGroups(op) == 1;  // the features of a group have no single stride in a tiled layout
}

void Contraction::PlanDot(const Instruction& op, const PhysicalLayout& lhs, const PhysicalLayout& rhs,
                          const PhysicalLayout& out) {
  const DotDimensions& d = op.dot_dims();
  int64_t at = 0;  // the result has batch dimensions, then free ones of the left operand, then of the right one
  for (size_t i = 0; i < d.lhs_batch.size(); ++i, ++at) {
    const int64_t size = lhs.dims()[static_cast<size_t>(d.lhs_batch[i])];
    lhs_.batch.Add(size, lhs.digits(d.lhs_batch[i]));
    rhs_.batch.Add(size, rhs.digits(d.rhs_batch[i]));
    out_batch_.Add(size, out.digits(at));
  }
  auto free = [&](const PhysicalLayout& side, const Ints& batch, const Ints& contracting) {
    std::vector<FreeDim> dims;
    for (int64_t i = 0; i < static_cast<int64_t>(side.dims().size()); ++i) {
      if (absl::c_linear_search(batch, i) || absl::c_linear_search(contracting, i)) continue;
      dims.push_back({side.dims()[static_cast<size_t>(i)], GetDigits(side, i), GetDigits(out, at++)});
    }
    return dims;
  };
  AddFreeDims(free(lhs, d.lhs_batch, d.lhs_contracting), &lhs_.outer, &out_rows_);
  AddFreeDims(free(rhs, d.rhs_batch, d.rhs_contracting), &rhs_.outer, &out_columns_);
  for (size_t i = 0; i < d.lhs_contracting.size(); ++i) {
    const int64_t size = lhs.dims()[static_cast<size_t>(d.lhs_contracting[i])];
    lhs_.k.Add(size, lhs.digits(d.lhs_contracting[i]));
    rhs_.k.Add(size, rhs.digits(d.rhs_contracting[i]));
  }
}

void Contraction::PlanConvolution(const Instruction& op, const PhysicalLayout& lhs, const PhysicalLayout& rhs,
                                  const PhysicalLayout& out, const Layout* lhs_layout) {
  const ConvolutionDimensions& d = op.conv_dims();
  const std::vector<WindowDimension>& window = op.window().dimensions;
  const int64_t feature_groups = op.attrs().GetInt(AttrId::kFeatureGroupCount, 1);
  const int64_t groups = CountGroups(op);
  const size_t spatial = d.input_spatial.size();
  auto size_of = [](const PhysicalLayout& l, int64_t dim) { return l.dims()[static_cast<size_t>(dim)]; };

  // Windows are read from the operand itself if they never leave it and if each step is a constant stride.
  bool in_place = groups == 1 || (IsLinear(lhs, d.input_batch) && IsLinear(lhs, d.input_feature));
  for (size_t i = 0; i < spatial; ++i) {
    const WindowDimension& w = window[i];
    if (w.padding_low != 0 || w.padding_high > 0 || w.base_dilation != 1) in_place = false;
    const bool plain = w.size == 1 && w.stride == 1;
    if (!plain && !IsLinear(lhs, d.input_spatial[i])) in_place = false;
  }
  std::vector<Digits> in(lhs.dims().size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = GetDigits(lhs, static_cast<int64_t>(i));
  std::vector<int64_t> stride(in.size());
  for (size_t i = 0; i < in.size(); ++i) stride[i] = GetStride(lhs, static_cast<int64_t>(i));
  if (!in_place) {
    padded_copy_ = std::make_unique<PaddedCopy>();
    std::vector<int64_t> order(in.size()), extent(in.size()), low(in.size(), 0), step(in.size(), 1);
    std::iota(order.begin(), order.end(), 0);
    if (lhs_layout != nullptr) order.assign(lhs_layout->minor_to_major.rbegin(), lhs_layout->minor_to_major.rend());
    for (size_t i = 0; i < in.size(); ++i) extent[i] = lhs.dims()[i];
    for (size_t i = 0; i < spatial; ++i) {
      const size_t dim = static_cast<size_t>(d.input_spatial[i]);
      const WindowDimension& w = window[i];
      low[dim] = w.padding_low;
      step[dim] = w.base_dilation;
      extent[dim] = std::max<int64_t>(
          0, (extent[dim] == 0 ? 0 : (extent[dim] - 1) * w.base_dilation + 1) + w.padding_low + w.padding_high);
      padded_copy_->has_gaps = padded_copy_->has_gaps || low[dim] > 0 || step[dim] != 1 || w.padding_high > 0;
    }
    padded_copy_->elements = 1;
    for (size_t i = order.size(); i-- > 0;) {
      stride[static_cast<size_t>(order[i])] = padded_copy_->elements;
      padded_copy_->elements *= extent[static_cast<size_t>(order[i])];
    }
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t dim = static_cast<size_t>(order[i]);
      const int64_t n = lhs.dims()[dim];
      std::vector<int64_t> from(static_cast<size_t>(n)), to(static_cast<size_t>(n), -1);
      Offsets offsets;
      offsets.Add(n, in[dim]);
      offsets.Fill(0, n, from.data());
      for (int64_t k = 0; k < n; ++k) {
        const int64_t at = k * step[dim] + low[dim];
        if (at >= 0 && at < extent[dim]) to[static_cast<size_t>(k)] = at * stride[dim];
      }
      in[dim] = MakeStrideDigits(stride[dim]);
      if (i + 1 < order.size()) {
        padded_copy_->outer *= n;
        padded_copy_->from.push_back(std::move(from));
        padded_copy_->to.push_back(std::move(to));
        continue;
      }
      for (size_t k = 0; k < from.size(); ++k) {
        if (to[k] < 0) continue;
        std::vector<PaddedCopy::Run>& runs = padded_copy_->runs;
        if (!runs.empty() && k > 0 && to[k - 1] >= 0) {
          PaddedCopy::Run& last = runs.back();
          const int64_t a = from[k] - from[k - 1], b = to[k] - to[k - 1];
          if (last.count == 1) {
            last.from_step = a;
            last.to_step = b;
          }
          if (last.from_step == a && last.to_step == b) {
            ++last.count;
            continue;
          }
        }
        runs.push_back({from[k], 1, to[k], 1, 1});
      }
    }
  }

  const int64_t per_group = size_of(out, d.output_feature) / groups;
  const int64_t out_batch = size_of(out, d.output_batch);
  const int64_t kernel_features = size_of(rhs, d.kernel_input_feature);
  if (groups > 1) {
    const bool by_feature = feature_groups > 1;
    lhs_.batch.Add(groups, by_feature ? kernel_features * stride[static_cast<size_t>(d.input_feature)]
                                      : out_batch * stride[static_cast<size_t>(d.input_batch)]);
    rhs_.batch.Add(groups, per_group * GetStride(rhs, d.kernel_output_feature));
    out_batch_.Add(groups, per_group * GetStride(out, d.output_feature));
  }
  std::vector<FreeDim> rows;
  rows.push_back({out_batch, in[static_cast<size_t>(d.input_batch)], GetDigits(out, d.output_batch)});
  for (size_t i = 0; i < spatial; ++i) {
    const size_t dim = static_cast<size_t>(d.input_spatial[i]);
    const WindowDimension& w = window[i];
    const bool plain = padded_copy_ == nullptr && w.size == 1 && w.stride == 1;
    rows.push_back({size_of(out, d.output_spatial[i]), plain ? in[dim] : MakeStrideDigits(w.stride * stride[dim]),
                    GetDigits(out, d.output_spatial[i])});
    const int64_t tap = w.window_dilation * stride[dim];
    if (w.window_reversal) lhs_.base += (w.size - 1) * tap;
    lhs_.k.Add(w.size, w.window_reversal ? -tap : tap);
    rhs_.k.Add(w.size, rhs.digits(d.kernel_spatial[i]));
  }
  AddFreeDims(std::move(rows), &lhs_.outer, &out_rows_);
  lhs_.k.Add(kernel_features, in[static_cast<size_t>(d.input_feature)]);
  rhs_.k.Add(kernel_features, rhs.digits(d.kernel_input_feature));
  rhs_.outer.Add(per_group, rhs.digits(d.kernel_output_feature));
  out_columns_.Add(per_group, out.digits(d.output_feature));
}

absl::StatusOr<std::unique_ptr<const Contraction>> Contraction::Plan(const Instruction& op, const Layout* lhs,
                                                                     const Layout* rhs, const Layout* out,
                                                                     int64_t side) {
  RETURN_IF_ERROR(CheckArraySupports(op));
  const Shape &left = op.operand(0)->shape(), &right = op.operand(1)->shape();
  ASSIGN_OR_RETURN(PhysicalLayout lhs_layout, MakePhysicalLayout(left, lhs));
  ASSIGN_OR_RETURN(PhysicalLayout rhs_layout, MakePhysicalLayout(right, rhs));
  ASSIGN_OR_RETURN(PhysicalLayout out_layout, MakePhysicalLayout(op.shape(), out));
  std::unique_ptr<Contraction> c(new Contraction);
  auto set_type = [](const Shape& shape, Side* side) {
    side->elements = shape.num_elements();
    if (IsReadDirectly(shape.element_type())) {
      side->type = shape.element_type();
    } else {
      side->converted = shape.element_type();
    }
  };
  set_type(left, &c->lhs_);
  set_type(right, &c->rhs_);
  c->out_type_ = op.shape().element_type();
  if (op.Is(Opcode::kDot)) {
    c->PlanDot(op, lhs_layout, rhs_layout, out_layout);
  } else {
    c->PlanConvolution(op, lhs_layout, rhs_layout, out_layout, lhs);
  }
  for (Offsets* o : {&c->lhs_.batch, &c->lhs_.outer, &c->lhs_.k, &c->rhs_.batch, &c->rhs_.outer, &c->rhs_.k,
                     &c->out_batch_, &c->out_rows_, &c->out_columns_}) {
    o->Precompute();
  }
  c->shape_.batch = c->out_batch_.size();
  c->shape_.m = c->out_rows_.size();
  c->shape_.n = c->out_columns_.size();
  c->shape_.k = c->lhs_.k.size();
  c->shape_.side = side;
  c->shape_.passes = backplane::tpu::CountPasses(op);
  return std::unique_ptr<const Contraction>(std::move(c));
}

double Contraction::multiply_adds() const {
  return static_cast<double>(shape_.batch) * static_cast<double>(shape_.m) * static_cast<double>(shape_.n) *
         static_cast<double>(shape_.k) * std::max(1, shape_.passes);
}

int64_t Contraction::workspace_bytes(int threads) const {
  return lhs_.converted_bytes() + rhs_.converted_bytes() + padded_copy_bytes() +
         ComputeArrayProductWorkspaceBytes(shape_, threads);
}

std::string Contraction::ToString() const {
  return absl::StrCat("array: ", shape_.batch, " x [", shape_.m, ",", shape_.k, "] x [", shape_.k, ",", shape_.n, "], ",
                      std::max(1, shape_.passes), shape_.passes > 1 ? " passes" : " pass",
                      padded_copy_ == nullptr ? "" : ", windows from a copy");
}

void Contraction::RunPaddedCopy(const void* from, void* to, engine::ThreadPool* pool) const {
  const PaddedCopy& s = *padded_copy_;
  const int64_t width = ByteWidth(lhs_.type);
  const auto* in = static_cast<const std::byte*>(from);
  auto* out = static_cast<std::byte*>(to);
  auto parallel = [&](int64_t total, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> body) {
    if (pool == nullptr || total < 2 * grain) return body(0, total);
    pool->ParallelRange(total, grain, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  };
  if (s.has_gaps) {
    parallel(s.elements * width, kCopyGrain * 8,
             [&](int64_t begin, int64_t end) { std::memset(out + begin, 0, static_cast<size_t>(end - begin)); });
  }
  int64_t inner = 0;
  for (const PaddedCopy::Run& run : s.runs) inner += run.count;
  if (inner == 0) return;
  parallel(s.outer, std::max<int64_t>(1, kCopyGrain / inner), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      int64_t a = 0, b = 0, rest = n;
      bool copied = true;
      for (size_t d = s.from.size(); d-- > 0 && copied;) {
        const size_t size = s.from[d].size(), i = static_cast<size_t>(rest) % size;
        rest /= static_cast<int64_t>(size);
        copied = s.to[d][i] >= 0;
        a += s.from[d][i];
        b += s.to[d][i];
      }
      if (!copied) continue;
      for (const PaddedCopy::Run& run : s.runs) {
        const std::byte* source = in + (a + run.from) * width;
        std::byte* target = out + (b + run.to) * width;
        if (run.from_step == 1 && run.to_step == 1) {
          std::memcpy(target, source, static_cast<size_t>(run.count * width));
        } else if (width == 4) {
          for (int64_t i = 0; i < run.count; ++i)
            std::memcpy(target + i * run.to_step * 4, source + i * run.from_step * 4, 4);
        } else {
          for (int64_t i = 0; i < run.count; ++i)
            std::memcpy(target + i * run.to_step * 2, source + i * run.from_step * 2, 2);
        }
      }
    }
  });
}

void Contraction::Run(const void* lhs, const void* rhs, void* out, void* workspace, engine::ThreadPool* pool) const {
  auto* free = static_cast<std::byte*>(workspace);
  auto convert = [&](const Side& side, const void* data) -> const void* {
    if (side.converted == PrimitiveType::kInvalid) return data;
    ConvertElements(side.converted, static_cast<const std::byte*>(data), side.type, free, side.elements);
    const void* converted = free;
    free += side.converted_bytes();
    return converted;
  };
  lhs = convert(lhs_, lhs);
  rhs = convert(rhs_, rhs);
  if (padded_copy_ != nullptr) {
    RunPaddedCopy(lhs, free, pool);
    lhs = free;
    free += padded_copy_bytes();
  }
  lhs = static_cast<const std::byte*>(lhs) + lhs_.base * ByteWidth(lhs_.type);
  ComputeArrayProduct(shape_, {lhs, lhs_.type, &lhs_.batch, &lhs_.outer, &lhs_.k},
                      {rhs, rhs_.type, &rhs_.batch, &rhs_.outer, &rhs_.k},
                      {out, out_type_, &out_batch_, &out_rows_, &out_columns_}, free, pool);
}

absl::StatusOr<Literal> RunOnArray(const Instruction& op, const Literal& lhs, const Literal& rhs, int64_t side,
                                   engine::ThreadPool* pool) {
  ASSIGN_OR_RETURN(std::unique_ptr<const Contraction> contraction,
                   Contraction::Plan(op, nullptr, nullptr, nullptr, side));
  Literal out(op.shape().WithoutLayout());
  const size_t bytes = static_cast<size_t>(contraction->workspace_bytes(pool == nullptr ? 1 : pool->num_threads()));
  std::vector<std::byte> workspace(bytes + kAlignment);
  void* aligned = workspace.data() + (kAlignment - reinterpret_cast<uintptr_t>(workspace.data()) % kAlignment);
  contraction->Run(lhs.bytes(), rhs.bytes(), out.mutable_bytes(), aligned, pool);
  return out;
}

}  // namespace backplane::tpu
