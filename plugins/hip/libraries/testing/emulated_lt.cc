// The functions of cuBLASLt or hipBLASLt that the plugin calls, on the emulated runtime. EMULATED_LT_NAME makes a name
// of a function of its suffix, EMULATED_LT_DIALECT is the dialect.
//
// There are three algorithms: the first one is slow, the second one has the mode that tests set, and the third one is
// wrong. A fourth result has an error as its state.
#include <atomic>
#include <cstring>
#include <memory>

#include "plugins/hip/libraries/cuda_data_type.h"
#include "plugins/hip/libraries/lt_library.h"
#include "plugins/hip/libraries/testing/emulated_blas.h"

#define EMULATED_LT_JOIN_OF(prefix, suffix) prefix##suffix
#define EMULATED_LT_JOIN(prefix, suffix) EMULATED_LT_JOIN_OF(prefix, suffix)
#define EMULATED_LT_NAME(suffix) EMULATED_LT_JOIN(EMULATED_LT_PREFIX, suffix)
#define EMULATED_LT_TEXT_OF(x) #x
#define EMULATED_LT_TEXT(x) EMULATED_LT_TEXT_OF(x)
// Begins a function: counts the call and returns if it is to fail.
#define EMULATED_LT_BEGIN(suffix)                                                                                      \
  if (const Result fault = emulated_blas::CountCall(EMULATED_LT_TEXT(EMULATED_LT_NAME(suffix))); fault != Result::kOk) \
    return StatusOf(fault);

namespace backplane::hip {

namespace lt {
struct LtDescriptor {
  Enum compute_type, scale_type;
  Enum operation_a = EMULATED_LT_DIALECT.operation_n, operation_b = EMULATED_LT_DIALECT.operation_n;
};
struct LtLayout {
  Enum type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct LtPreference {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = 7, alignments[4] = {256, 256, 256, 256};
};
}  // namespace lt

namespace {

using emulated_blas::BlasHandle;
using emulated_blas::GemmArguments;
using emulated_blas::Mode;
using emulated_blas::Result;
using emulated_blas::Type;
using lt::Descriptor;
using lt::Enum;
using lt::Handle;
using lt::Layout;
using lt::Preference;

constexpr lt::Dialect kDialect = EMULATED_LT_DIALECT;
constexpr Enum kWrongValue = 7, kNotSupported = 15;
std::atomic<int64_t> live_objects{0};

Enum StatusOf(Result result) { return result == Result::kOk ? 0 : result == Result::kWrongArgument ? kWrongValue : 14; }

Type TypeOf(Enum type) {
  switch (type) {
    case cuda_type::kR16F:
      return Type::kF16;
    case cuda_type::kR16BF:
      return Type::kBF16;
    case cuda_type::kR32F:
      return Type::kF32;
    case cuda_type::kR64F:
      return Type::kF64;
    case cuda_type::kR8I:
      return Type::kS8;
    case cuda_type::kR32I:
      return Type::kS32;
    default:
      return Type::kNone;
  }
}

// Whether products of the type are exact with these types of the computation.
bool IsExact(Enum type, const lt::LtDescriptor& d) {
  switch (type) {
    case cuda_type::kR64F:
      return d.compute_type == kDialect.compute_f64 && d.scale_type == cuda_type::kR64F;
    case cuda_type::kR8I:
      return d.compute_type == kDialect.compute_s32 && d.scale_type == cuda_type::kR32I;
    case cuda_type::kR32F:
      return d.compute_type == kDialect.compute_f32_exact && d.scale_type == cuda_type::kR32F;
    default:
      return d.compute_type == kDialect.compute_f32 && d.scale_type == cuda_type::kR32F;
  }
}

template <typename T>
Enum Create(T** made, T value) {
  *made = new T(value);
  ++live_objects;
  return 0;
}
template <typename T>
Enum Destroy(T* object) {
  if (object == nullptr) return kWrongValue;
  delete object;
  --live_objects;
  return 0;
}
template <typename T>
Enum Set(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return kWrongValue;
  std::memcpy(&to, value, bytes);
  return 0;
}

// Returns what the kernel takes, without addresses; Type::kNone if the descriptors do not fit each other.
GemmArguments ArgumentsFor(const lt::LtDescriptor& descriptor, const lt::LtLayout& a, const lt::LtLayout& b,
                           const lt::LtLayout& d) {
  GemmArguments g{};
  g.type = g.out_type = Type::kNone;
  g.transposed_a = descriptor.operation_a == kDialect.operation_t ? 1 : 0;
  g.transposed_b = descriptor.operation_b == kDialect.operation_t ? 1 : 0;
  g.m = d.rows, g.n = d.columns, g.k = g.transposed_a != 0 ? a.rows : a.columns, g.batch = d.batch;
  g.leading_a = a.leading, g.leading_b = b.leading, g.leading_d = d.leading;
  g.stride_a = a.stride, g.stride_b = b.stride, g.stride_d = d.stride;
  const bool fits = (g.transposed_a != 0 ? a.columns : a.rows) == g.m &&
                    (g.transposed_b != 0 ? b.columns : b.rows) == g.k &&
                    (g.transposed_b != 0 ? b.rows : b.columns) == g.n && a.batch == d.batch && b.batch == d.batch &&
                    a.type == b.type && IsExact(a.type, descriptor);
  if (fits) g.type = TypeOf(a.type), g.out_type = TypeOf(d.type);
  return g;
}

}  // namespace

EMULATED_BLAS_EXPORT int64_t emulatedBlasLiveObjects() { return live_objects; }

EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(Create)(Handle* handle) {
  EMULATED_LT_BEGIN(Create)
  return StatusOf(emulated_blas::CreateHandle(reinterpret_cast<BlasHandle**>(handle)));
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(Destroy)(Handle handle) {
  return StatusOf(emulated_blas::DestroyHandle(static_cast<BlasHandle*>(handle)));
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatmulDescCreate)(Descriptor* descriptor, Enum compute_type,
                                                             Enum scale_type) {
  EMULATED_LT_BEGIN(MatmulDescCreate)
  return Create(descriptor, {compute_type, scale_type});
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatmulDescDestroy)(Descriptor descriptor) { return Destroy(descriptor); }
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatmulDescSetAttribute)(Descriptor descriptor, Enum attribute,
                                                                   const void* value, size_t bytes) {
  EMULATED_LT_BEGIN(MatmulDescSetAttribute)
  if (attribute == kDialect.descriptor_transpose_a) return Set(descriptor->operation_a, value, bytes);
  if (attribute == kDialect.descriptor_transpose_b) return Set(descriptor->operation_b, value, bytes);
  return kWrongValue;
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatrixLayoutCreate)(Layout* layout, Enum type, uint64_t rows,
                                                               uint64_t columns, int64_t leading) {
  EMULATED_LT_BEGIN(MatrixLayoutCreate)
  if (leading < static_cast<int64_t>(rows)) return kWrongValue;
  return Create(layout, {type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatrixLayoutDestroy)(Layout layout) { return Destroy(layout); }
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatrixLayoutSetAttribute)(Layout layout, Enum attribute, const void* value,
                                                                     size_t bytes) {
  EMULATED_LT_BEGIN(MatrixLayoutSetAttribute)
  if (attribute == kDialect.layout_batch_count) return Set(layout->batch, value, bytes);
  if (attribute == kDialect.layout_batch_stride) return Set(layout->stride, value, bytes);
  return kWrongValue;
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatmulPreferenceCreate)(Preference* preference) {
  EMULATED_LT_BEGIN(MatmulPreferenceCreate)
  return Create(preference, {});
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatmulPreferenceDestroy)(Preference preference) {
  return Destroy(preference);
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatmulPreferenceSetAttribute)(Preference preference, Enum attribute,
                                                                         const void* value, size_t bytes) {
  EMULATED_LT_BEGIN(MatmulPreferenceSetAttribute)
  if (attribute == kDialect.preference_workspace_bytes) return Set(preference->workspace_bytes, value, bytes);
  if (kDialect.preference_reductions >= 0 && attribute == kDialect.preference_reductions)
    return Set(preference->reductions, value, bytes);
  const Enum first = kDialect.preference_alignment_a;
  if (first >= 0 && attribute >= first && attribute < first + 4)
    return Set(preference->alignments[attribute - first], value, bytes);
  return kWrongValue;
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(MatmulAlgoGetHeuristic)(Handle handle, Descriptor descriptor, Layout a,
                                                                   Layout b, Layout c, Layout d, Preference preference,
                                                                   int requested, void* results, int* returned) {
  EMULATED_LT_BEGIN(MatmulAlgoGetHeuristic)
  const bool reductions = kDialect.preference_reductions < 0 ||
                          preference->reductions == static_cast<uint32_t>(kDialect.reductions_in_compute_type);
  bool alignments = true;
  for (const uint32_t alignment : preference->alignments)
    alignments = alignments && (kDialect.preference_alignment_a < 0 || alignment == 64);
  if (handle == nullptr || c != d || !reductions || !alignments || preference->workspace_bytes == 0) return kWrongValue;
  if (ArgumentsFor(*descriptor, *a, *b, *d).type == Type::kNone) return kNotSupported;
  for (int i = 0; i < requested && i < 4; ++i) {
    char* result = static_cast<char*>(results) + static_cast<size_t>(i) * lt::ResultBytes(kDialect);
    result[0] = static_cast<char>(i + 1);
    const uint64_t workspace = 1024;
    const Enum state = i == 3 ? kNotSupported : 0;
    std::memcpy(result + kDialect.algorithm_bytes, &workspace, sizeof workspace);
    std::memcpy(result + kDialect.algorithm_bytes + sizeof workspace, &state, sizeof state);
    *returned = i + 1;
  }
  return 0;
}
EMULATED_BLAS_EXPORT Enum EMULATED_LT_NAME(Matmul)(Handle handle, Descriptor descriptor, const void* alpha,
                                                   const void* a, Layout a_layout, const void* b, Layout b_layout,
                                                   const void* beta, const void* c, Layout c_layout, void* d,
                                                   Layout d_layout, const void* algorithm, void* workspace,
                                                   size_t workspace_bytes, hipStream_t stream) {
  EMULATED_LT_BEGIN(Matmul)
  GemmArguments arguments = ArgumentsFor(*descriptor, *a_layout, *b_layout, *d_layout);
  const char number = *static_cast<const char*>(algorithm);
  if (c != d || c_layout != d_layout || alpha == beta || workspace == nullptr || workspace_bytes < 1024 || number < 1 ||
      number > 3)
    return kWrongValue;
  arguments.a = a, arguments.b = b, arguments.d = d;
  auto* own = static_cast<BlasHandle*>(handle);
  (void)emulated_blas::SetStreamOfHandle(own, stream);
  if (number == 2) return StatusOf(emulated_blas::EnqueueGemm(own, arguments));
  return StatusOf(emulated_blas::EnqueueGemm(own, arguments, number == 1 ? Mode::kSlow : Mode::kWrong));
}

}  // namespace backplane::hip
