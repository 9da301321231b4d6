// cuBLASLt and hipBLASLt: the functions that the plugin calls. Both have the same functions, with different names and
// numbers; a dialect has what differs.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_LT_LIBRARY_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_LT_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/hip/libraries/product_library.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip::lt {

using Enum = int32_t;  // all enumerations of the interface
using Handle = void*;
using Descriptor = struct LtDescriptor*;
using Layout = struct LtLayout*;
using Preference = struct LtPreference*;

// X(member, suffix, (parameters)); the name is that of the dialect and the suffix. Each returns a status, which is 0
// for success. `algorithm` and `results` point to structures of the dialect.
#define BACKPLANE_LT_FUNCTIONS(X)                                                                             \
  X(create, "Create", (Handle * handle))                                                                      \
  X(destroy, "Destroy", (Handle handle))                                                                      \
  X(descriptor_create, "MatmulDescCreate", (Descriptor * descriptor, Enum compute_type, Enum scale_type))     \
  X(descriptor_destroy, "MatmulDescDestroy", (Descriptor descriptor))                                         \
  X(descriptor_set, "MatmulDescSetAttribute",                                                                 \
    (Descriptor descriptor, Enum attribute, const void* value, size_t bytes))                                 \
  X(layout_create, "MatrixLayoutCreate",                                                                      \
    (Layout * layout, Enum type, uint64_t rows, uint64_t columns, int64_t leading))                           \
  X(layout_destroy, "MatrixLayoutDestroy", (Layout layout))                                                   \
  X(layout_set, "MatrixLayoutSetAttribute", (Layout layout, Enum attribute, const void* value, size_t bytes)) \
  X(preference_create, "MatmulPreferenceCreate", (Preference * preference))                                   \
  X(preference_destroy, "MatmulPreferenceDestroy", (Preference preference))                                   \
  X(preference_set, "MatmulPreferenceSetAttribute",                                                           \
    (Preference preference, Enum attribute, const void* value, size_t bytes))                                 \
  X(get_heuristic, "MatmulAlgoGetHeuristic",                                                                  \
    (Handle handle, Descriptor descriptor, Layout a, Layout b, Layout c, Layout d, Preference preference,     \
     int requested, void* results, int* returned))                                                            \
  X(matmul, "Matmul",                                                                                         \
    (Handle handle, Descriptor descriptor, const void* alpha, const void* a, Layout a_layout, const void* b,  \
     Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d, Layout d_layout,             \
     const void* algorithm, void* workspace, size_t workspace_bytes, hipStream_t stream))

struct Functions {
#define BACKPLANE_LT_MEMBER(member, suffix, parameters) Enum(*member) parameters = nullptr;
  BACKPLANE_LT_FUNCTIONS(BACKPLANE_LT_MEMBER)
#undef BACKPLANE_LT_MEMBER
};

struct Dialect {
  const char* prefix;  // of the names of functions
  Enum operation_n, operation_t;
  // Types of the computation. f32 has two: of operands that are f32 themselves, and of narrower ones.
  Enum compute_f32_exact, compute_f32, compute_f32_by_tf32, compute_f64, compute_s32;
  Enum descriptor_transpose_a, descriptor_transpose_b, layout_batch_count, layout_batch_stride,
      preference_workspace_bytes;
  // -1: the dialect has none. Which schemes may add partial sums: the only one is that of the type of the sums.
  Enum preference_reductions, reductions_in_compute_type;
  // -1: the dialect has none. The alignment of A; those of B, C and D follow.
  Enum preference_alignment_a;
  size_t algorithm_bytes;  // a result is: algorithm, size_t workspace, int status, float, int[4]
};
constexpr size_t ResultBytes(const Dialect& dialect) { return dialect.algorithm_bytes + 8 + 4 + 4 + 16; }

inline constexpr Dialect kCublasLt = {"cublasLt", 0, 1, 69, 68, 77, 71, 72, 3, 4, 5, 6, 1, 3, 2, 5, 64};
inline constexpr Dialect kHipblasLt = {"hipblasLt", 111, 112, 2, 2, 6, 7, 9, 0, 1, 0, 1, 1, -1, 0, -1, 24};

// Returns NotFound if the library has another interface.
absl::StatusOr<std::shared_ptr<const ProductLibrary>> Open(const HipApi& api, const VendorLibrary& library,
                                                           const std::string& architecture);

}  // namespace backplane::hip::lt

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_LT_LIBRARY_H_
