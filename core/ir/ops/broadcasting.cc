#include "core/ir/ops/broadcasting.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {

using internal::Fail;

absl::Status BroadcastOperands(Builder& b, Opcode opcode, Value* lhs, Value* rhs,
                               absl::Span<const int64_t> broadcast_dimensions) {
  RETURN_IF_ERROR(internal::CheckArrays(b, opcode, {*lhs, *rhs}));
  const Shape l = (*lhs)->shape(), r = (*rhs)->shape();
  if (l.rank() != r.rank()) {
    const bool lhs_small = l.rank() < r.rank();
    const Shape &small = lhs_small ? l : r, &big = lhs_small ? r : l;
    Value* value = lhs_small ? lhs : rhs;
    if (broadcast_dimensions.empty() && small.rank() > 0) {
      return Fail(opcode, "broadcast_e5", "ranks differ and there are no broadcast_dimensions: ", l.ToString(), ", ",
                  r.ToString());
    }
    if (static_cast<int64_t>(broadcast_dimensions.size()) != small.rank()) {
      return Fail(opcode, "broadcast_e6", "has ", broadcast_dimensions.size(), " broadcast_dimensions, rank of ",
                  small.ToString(), " is ", small.rank());
    }
    for (int64_t i = 0; i < small.rank(); ++i) {
      const int64_t d = broadcast_dimensions[i];
      if (d < 0 || d >= big.rank() || (i > 0 && broadcast_dimensions[i - 1] >= d)) {
        return Fail(opcode, "broadcast_e6", "broadcast_dimensions must increase and lie in rank ", big.rank(),
                    ", found ", d, " at place ", i);
      }
    }
    DimVector dims = big.dimensions();
    for (int64_t i = 0; i < small.rank(); ++i) {
      const int64_t d = broadcast_dimensions[i], x = small.dimensions(i), y = big.dimensions(d);
      if (x != y && x != 1 && y != 1) {
        return Fail(opcode, "broadcast_e7", "dim ", i, " of ", small.ToString(), " does not match dim ", d, " of ",
                    big.ToString());
      }
      dims[d] = x;
    }
    ASSIGN_OR_RETURN(*value, b.BroadcastInDim(*value, dims, broadcast_dimensions));
  } else if (!broadcast_dimensions.empty()) {
    bool all = static_cast<int64_t>(broadcast_dimensions.size()) == l.rank();
    for (size_t i = 0; all && i < broadcast_dimensions.size(); ++i) {
      all = broadcast_dimensions[i] == static_cast<int64_t>(i);
    }
    if (!all) {
      return Fail(opcode, "broadcast_e6", "broadcast_dimensions of equal ranks must be all dimensions in order");
    }
  }
  const Shape &x = (*lhs)->shape(), &y = (*rhs)->shape();
  DimVector dims = x.dimensions();
  Ints all;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const int64_t m = x.dimensions(i), n = y.dimensions(i);
    if (m != n && m != 1 && n != 1) {
      return Fail(opcode, "broadcast_e8", "dim ", i, " differs: ", x.ToString(), ", ", y.ToString());
    }
    dims[i] = m == 1 ? n : m;
    all.push_back(i);
  }
  ASSIGN_OR_RETURN(*lhs, b.BroadcastInDim(*lhs, dims, all));
  ASSIGN_OR_RETURN(*rhs, b.BroadcastInDim(*rhs, dims, all));
  return absl::OkStatus();
}

}  // namespace backplane::hlo
