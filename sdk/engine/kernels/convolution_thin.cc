// Convolution in groups of few features, of any layout and dilation: too thin for a matrix product. The input planes of
// a group are copied into rows with their padding, one row for each phase of the window's stride, so that every tap of
// a row of outputs reads neighbours; then each output row is a sum of scaled rows.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/engine/kernels/convolution_internal.h"
#include "sdk/engine/kernels/scalar_access.h"
#include "sdk/engine/kernels/simd_level.h"
#include "sdk/engine/kernels/thin_simd.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {
namespace {

constexpr int64_t kPlaneBytes = 128 * 1024;  // of input rows at once, to stay in L2
constexpr int64_t kFewestRows = 4;           // of outputs at once, for their windows overlap
constexpr int64_t kFewFeatures = 4;

// Values of type S, `stride` apart, as T.
template <typename S, typename T, typename Read>
void WidenAs(const S* from, int64_t stride, T* to, int64_t to_stride, int64_t count, Read read) {
  if (stride == 1 && to_stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = read(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = read(from[i * stride]);
  }
}
template <typename T>
void Widen(ElementType type, const void* from, int64_t stride, T* to, int64_t to_stride, int64_t count) {
  auto plain = [](auto x) { return static_cast<T>(x); };
  switch (type) {
    case ElementType::kF16:
      return WidenAs(static_cast<const _Float16*>(from), stride, to, to_stride, count,
                     [](_Float16 x) { return static_cast<T>(static_cast<float>(x)); });
    case ElementType::kBF16:
      return WidenAs(static_cast<const uint16_t*>(from), stride, to, to_stride, count,
                     [](uint16_t x) { return static_cast<T>(Bf16ToFloat(x)); });
    case ElementType::kF32:
      return WidenAs(static_cast<const float*>(from), stride, to, to_stride, count, plain);
    default:
      return WidenAs(static_cast<const double*>(from), stride, to, to_stride, count, plain);
  }
}

template <typename T>
void Narrow(const T* from, ElementType type, void* to, int64_t stride, int64_t count) {
  switch (type) {
    case ElementType::kF16:
      for (int64_t i = 0; i < count; ++i) static_cast<_Float16*>(to)[i * stride] = static_cast<_Float16>(from[i]);
      return;
    case ElementType::kBF16:
      for (int64_t i = 0; i < count; ++i)
        static_cast<uint16_t*>(to)[i * stride] = FloatToBf16(static_cast<float>(from[i]));
      return;
    case ElementType::kF32:
      for (int64_t i = 0; i < count; ++i) static_cast<float*>(to)[i * stride] = static_cast<float>(from[i]);
      return;
    default:
      for (int64_t i = 0; i < count; ++i) static_cast<double*>(to)[i * stride] = static_cast<double>(from[i]);
      return;
  }
}

template <typename T>
class ThinConvolution : public ConvolutionPlan {
 public:
  ThinConvolution(const ConvolutionProblem& p, std::unique_ptr<ConvolutionPlan> reference, int num_threads)
      : p_(p),
        reference_(std::move(reference)),
        kernels_(PickSimd(base::thin_kernels, avx2::thin_kernels, avx512::thin_kernels)),
        threads_(std::max(1, num_threads)) {
    // One dimension is a single row.
    if (p_.dims.size() == 1) p_.dims.insert(p_.dims.begin(), ConvolutionDim());
    const ConvolutionDim& first = p_.dims.front();
    const ConvolutionDim& last = p_.dims.back();
    group_features_ = p_.out_features / p_.feature_groups;
    segment_ = last.kernel * p_.kernel_in_features;
    taps_ = KernelPositions(p_) * p_.kernel_in_features;
    reach_ = (last.output - 1) * last.stride + (last.kernel - 1) * last.rhs_dilation + 1;
    columns_ = CeilDiv(reach_, last.stride);
    row_ = columns_ * last.stride;
    for (size_t d = 1; d + 1 < p_.dims.size(); ++d) {
      inner_rows_ *= p_.dims[d].input;
      inner_positions_ *= p_.dims[d].output;
    }
    // Bands of outputs along the first dimension.
    auto input_rows = [&](int64_t outputs) {
      return std::min(
          first.input,
          ((outputs - 1) * first.stride + (first.kernel - 1) * first.rhs_dilation) / first.lhs_dilation + 1);
    };
    const int64_t images = OutputBatch(p_) * p_.feature_groups;
    const int64_t row_bytes = p_.kernel_in_features * inner_rows_ * row_ * static_cast<int64_t>(sizeof(T));
    band_ = first.output;
    while (band_ > kFewestRows &&
           (input_rows(band_) * row_bytes > kPlaneBytes || images * CeilDiv(first.output, band_) < 2 * threads_)) {
      band_ = std::max(kFewestRows, CeilDiv(band_, 2));
    }
    bands_ = CeilDiv(first.output, band_);
    band_rows_ = input_rows(band_);
    parallel_ = threads_ > 1 && CountMultiplies(p_) >= kMultipliesWorthSplitting;
    weight_bytes_ = RoundUp(p_.out_features * taps_ * static_cast<int64_t>(sizeof(T)), 64);
    plane_bytes_ = RoundUp(band_rows_ * row_bytes, 64);
    list_bytes_ = RoundUp(taps_ * static_cast<int64_t>(sizeof(T*)), 64);
    some_bytes_ = RoundUp(taps_ * static_cast<int64_t>(sizeof(T)), 64);
    slot_bytes_ = plane_bytes_ + list_bytes_ + some_bytes_ + RoundUp(last.output * static_cast<int64_t>(sizeof(T)), 64);
  }

  absl::string_view name() const override { return "thin"; }
  size_t scratch_bytes() const override { return weight_bytes_ + (parallel_ ? threads_ : 1) * slot_bytes_; }

  absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                       const Epilogue* epilogue) const override {
    T* weights = static_cast<T*>(scratch);
    // Padding is a matter of zeros here, which is right for weights that are numbers only.
    if (!PackWeights(rhs, weights)) return reference_->Execute(lhs, rhs, out, nullptr, pool, epilogue);
    char* slots = static_cast<char*>(scratch) + weight_bytes_;
    auto unit = [&](int64_t index, int slot) {
      const int64_t band = index % bands_, image = index / bands_;
      Unit(image / p_.feature_groups, image % p_.feature_groups, band, lhs, weights, out, slots + slot * slot_bytes_);
    };
    const int64_t units = OutputBatch(p_) * p_.feature_groups * bands_;
    if (pool == nullptr || !parallel_) {
      for (int64_t i = 0; i < units; ++i) unit(i, 0);
    } else {
      pool->ParallelFor(units, unit);
    }
    if (epilogue != nullptr) epilogue->run(epilogue->context, 0, 0, OutputBatch(p_));
    return absl::OkStatus();
  }

 private:
  // [output feature][window position, outermost first][input feature]; false where one is no finite number.
  bool PackWeights(const void* rhs, T* weights) const {
    const int64_t positions = taps_ / p_.kernel_in_features;
    for (int64_t w = 0; w < positions; ++w) {
      int64_t offset = 0, rest = w;
      for (int d = static_cast<int>(p_.dims.size()) - 1; d >= 0; --d) {
        const int64_t k = rest % p_.dims[d].kernel;
        rest /= p_.dims[d].kernel;
        offset += (p_.dims[d].reversed ? p_.dims[d].kernel - 1 - k : k) * p_.dims[d].rhs_stride;
      }
      for (int64_t f = 0; f < p_.kernel_in_features; ++f) {
        Widen(p_.rhs_type, At(rhs, offset + f * p_.rhs_in_stride, p_.rhs_type), p_.rhs_out_stride,
              weights + w * p_.kernel_in_features + f, taps_, p_.out_features);
      }
    }
    const int64_t count = p_.out_features * taps_;
    return std::all_of(weights, weights + count, [](T x) { return std::isfinite(x); });
  }

  // One input row, at `to` as [phase][column]: padded position u lies in phase u % stride, column u / stride.
  void CopyRow(const void* lhs, int64_t offset, T* to) const {
    const ConvolutionDim& d = p_.dims.back();
    if (d.stride == 1 && d.lhs_dilation == 1) {
      const int64_t begin = std::clamp<int64_t>(d.pad_low, 0, reach_);
      const int64_t end = std::clamp<int64_t>(d.pad_low + d.input, begin, reach_);
      std::fill(to, to + begin, T(0));
      Widen(p_.lhs_type, At(lhs, offset + (begin - d.pad_low) * d.lhs_stride, p_.lhs_type), d.lhs_stride, to + begin, 1,
            end - begin);
      std::fill(to + end, to + row_, T(0));
      return;
    }
    std::fill(to, to + row_, T(0));
    // Inputs `step` apart lie in one phase, their columns a constant apart.
    const int64_t step = d.stride / std::gcd(d.stride, d.lhs_dilation), column_step = step * d.lhs_dilation / d.stride;
    const int64_t seen = d.pad_low >= 0 ? 0 : CeilDiv(-d.pad_low, d.lhs_dilation);
    for (int64_t i = seen; i < std::min(d.input, seen + step); ++i) {
      const int64_t u = d.pad_low + i * d.lhs_dilation;
      if (u >= reach_) break;
      const int64_t count = std::min(CeilDiv(d.input - i, step), CeilDiv(reach_ - u, step * d.lhs_dilation));
      Widen(p_.lhs_type, At(lhs, offset + i * d.lhs_stride, p_.lhs_type), step * d.lhs_stride,
            to + u % d.stride * columns_ + u / d.stride, column_step, count);
    }
  }

  void Unit(int64_t b, int64_t g, int64_t band, const void* lhs, const T* weights, void* out, char* mine) const;

  ConvolutionProblem p_;
  const std::unique_ptr<ConvolutionPlan> reference_;
  const ThinKernels& kernels_;
  const int threads_;
  int64_t group_features_, taps_;
  int64_t segment_;                               // taps along the last dimension
  int64_t reach_, columns_, row_;                 // padded positions along the last dimension that outputs see
  int64_t inner_rows_ = 1, inner_positions_ = 1;  // of the dimensions between the first and the last
  int64_t band_, bands_, band_rows_;
  int64_t weight_bytes_, plane_bytes_, list_bytes_, some_bytes_, slot_bytes_;
  bool parallel_;
};

template <typename T>
void ThinConvolution<T>::Unit(int64_t b, int64_t g, int64_t band, const void* lhs, const T* weights, void* out,
                              char* mine) const {
  const ConvolutionDim& first = p_.dims.front();
  const ConvolutionDim& last = p_.dims.back();
  const int rank = static_cast<int>(p_.dims.size()), outer = rank - 1;
  T* plane = reinterpret_cast<T*>(mine);
  const T** sources = reinterpret_cast<const T**>(mine + plane_bytes_);
  T* some = reinterpret_cast<T*>(mine + plane_bytes_ + list_bytes_);
  T* result = reinterpret_cast<T*>(mine + plane_bytes_ + list_bytes_ + some_bytes_);
  const int64_t begin = band * band_, end = std::min(first.output, begin + band_), features = p_.kernel_in_features;
  // Input rows that this band's windows may see.
  const int64_t from = begin * first.stride - first.pad_low;
  const int64_t to = (end - 1) * first.stride + (first.kernel - 1) * first.rhs_dilation - first.pad_low;
  const int64_t row_begin = from <= 0 ? 0 : CeilDiv(from, first.lhs_dilation);
  const int64_t row_end = to < 0 ? row_begin : std::min(first.input, to / first.lhs_dilation + 1);
  const int64_t base = b * p_.lhs_batch_stride + g * features * p_.lhs_feature_stride;
  for (int64_t y = row_begin; y < row_end; ++y) {
    for (int64_t inner = 0; inner < inner_rows_; ++inner) {
      int64_t offset = base + y * first.lhs_stride, rest = inner;
      for (int d = outer - 1; d > 0; --d) {
        offset += rest % p_.dims[d].input * p_.dims[d].lhs_stride;
        rest /= p_.dims[d].input;
      }
      for (int64_t f = 0; f < features; ++f)
        CopyRow(lhs, offset + f * p_.lhs_feature_stride,
                plane + (((y - row_begin) * inner_rows_ + inner) * features + f) * row_);
    }
  }
  const bool in_place = last.out_stride == 1 && ElementBytes(p_.out_type) == sizeof(T) && IsFloat(p_.out_type);
  const int64_t segments = taps_ / segment_;
  for (int64_t position = begin * inner_positions_; position < end * inner_positions_; ++position) {
    int64_t at[8] = {}, rest = position, out_index = b * p_.out_batch_stride;
    for (int d = outer - 1; d >= 0; --d) {
      at[d] = d == 0 ? rest : rest % p_.dims[d].output;
      rest /= p_.dims[d].output;
      out_index += at[d] * p_.dims[d].out_stride;
    }
    // What of the window lies inside, and where.
    int64_t seen = 0;
    bool whole = true;
    auto each = [&](auto&& fn) {
      for (int64_t s = 0; s < segments; ++s) {
        int64_t left = s, row = 0, scale = 1;
        bool inside = true;
        for (int d = outer - 1; d >= 0 && inside; --d) {
          const int64_t w = left % p_.dims[d].kernel;
          left /= p_.dims[d].kernel;
          const int64_t u = at[d] * p_.dims[d].stride + w * p_.dims[d].rhs_dilation - p_.dims[d].pad_low;
          const int64_t i = u / p_.dims[d].lhs_dilation;
          inside = u >= 0 && u % p_.dims[d].lhs_dilation == 0 && i < p_.dims[d].input;
          row += (d == 0 ? i - row_begin : i) * scale;
          scale *= p_.dims[d].input;
        }
        fn(s, inside ? row : -1);
      }
    };
    each([&](int64_t, int64_t row) {
      if (row < 0) {
        whole = false;
        return;
      }
      for (int64_t k = 0; k < last.kernel; ++k) {
        const int64_t u = k * last.rhs_dilation;
        for (int64_t f = 0; f < features; ++f)
          sources[seen++] = plane + (row * features + f) * row_ + u % last.stride * columns_ + u / last.stride;
      }
    });
    for (int64_t o = g * group_features_; o < (g + 1) * group_features_; ++o) {
      const T* mine_weights = weights + o * taps_;
      if (!whole) {
        T* next = some;
        each([&](int64_t s, int64_t row) {
          if (row >= 0) next = std::copy_n(mine_weights + s * segment_, segment_, next);
        });
        mine_weights = some;
      }
      void* target = At(out, out_index + o * p_.out_feature_stride, p_.out_type);
      T* sums = in_place ? static_cast<T*>(target) : result;
      if constexpr (std::is_same_v<T, float>) {
        kernels_.f32(sources, mine_weights, seen, sums, last.output);
      } else {
        kernels_.f64(sources, mine_weights, seen, sums, last.output);
      }
      if (!in_place) Narrow(sums, p_.out_type, target, last.out_stride, last.output);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeThinConvolution(const ConvolutionProblem& p, int num_threads) {
  if (p.batch_groups > 1) return absl::UnimplementedError("batch groups are done one by one");
  if (p.feature_groups == 1) return absl::UnimplementedError("a single group");
  if (p.kernel_in_features >= kFewFeatures && p.out_features / p.feature_groups >= kFewFeatures)
    return absl::UnimplementedError("groups of many features");
  for (ElementType type : {p.lhs_type, p.rhs_type, p.out_type}) {
    if (!IsFloat(type))
      return absl::UnimplementedError(absl::StrCat("element type ", ElementTypeName(type), " is not supported"));
  }
  if (p.dims.empty()) return absl::UnimplementedError("no spatial dims");
  if (CountMultiplies(p) == 0) return absl::UnimplementedError("empty operand");
  absl::StatusOr<std::unique_ptr<ConvolutionPlan>> reference = MakeReferenceConvolution(p, num_threads);
  if (!reference.ok()) return reference.status();
  const bool wide =
      p.lhs_type == ElementType::kF64 || p.rhs_type == ElementType::kF64 || p.out_type == ElementType::kF64;
  if (wide)
    return std::unique_ptr<ConvolutionPlan>(
        std::make_unique<ThinConvolution<double>>(p, *std::move(reference), num_threads));
  return std::unique_ptr<ConvolutionPlan>(
      std::make_unique<ThinConvolution<float>>(p, *std::move(reference), num_threads));
}

}  // namespace backplane::engine
