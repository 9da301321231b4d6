#include "plugins/hip/libraries/matrix_product.h"

#include "absl/strings/str_cat.h"

namespace backplane::hip {

std::string MatrixProduct::ToString() const {
  const auto factor = [](const Factor& f) {
    return absl::StrCat(f.argument == 0 ? "left" : "right", f.transposed ? " transposed" : "", " (", f.leading, ", ",
                        f.stride, ")");
  };
  return absl::StrCat(Name(type), rounds_to_tf32 ? " as tf32" : "", " -> ", Name(out_type), ", ", batch, " x ", m,
                      " x ", n, " x ", k, ", ", factor(a), " by ", factor(b), " to (", leading, ", ", stride, ")");
}

}  // namespace backplane::hip
