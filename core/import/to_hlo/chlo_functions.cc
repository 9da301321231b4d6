#include "core/import/to_hlo/chlo_functions.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::to_hlo {

namespace {

struct UnaryRow {
  const char* name;
  Term (*make)(Term);
  bool complex;  // takes complex numbers too
};

constexpr UnaryRow kUnary[] = {
    {"_asin_acos_kernel", AsinAcosKernel, true},
    {"acos", Acos, true},
    {"acosh", Acosh, true},
    {"asin", Asin, true},
    {"asinh", Asinh, true},
    {"atan", Atan, true},
    {"atanh", Atanh, true},
    {"bessel_i1e", BesselI1e, false},
    {"digamma", Digamma, false},
    {"erf_inv", ErfInv, false},
    {"erfc", Erfc, false},
    {"lgamma", Lgamma, false},
    {"sinh", Sinh, true},
};

struct BinaryRow {
  const char* name;
  Term (*make)(Term, Term);
};

constexpr BinaryRow kBinary[] = {{"polygamma", Polygamma}, {"zeta", Zeta}};

absl::Status Unsupported(absl::string_view name, Value x) {
  return absl::UnimplementedError(absl::StrCat("chlo.", name, " of ", x->shape().ToString(), " is not supported"));
}

// Floats too narrow for a formula are computed in f32.
PrimitiveType Widened(PrimitiveType type) {
  return IsFloat(type) && type != PrimitiveType::kF64 ? PrimitiveType::kF32 : type;
}

}  // namespace

absl::StatusOr<Value> ExpandChloUnary(Builder& b, absl::string_view name, Value x) {
  PrimitiveType type = x->shape().element_type();
  Formula f(&b, x->shape());
  Term t = f.Of(x);
  const OpInfo* info = FindByStablehlo(absl::StrCat("chlo.", name));
  if (info != nullptr && info->Has(kElementwise)) return b.Unary(info->opcode, x);
  if (name == "tan") return b.Unary(Opcode::kTan, x);
  if (name == "square") return f.Result(Square(t));
  if (name == "conj") return IsComplex(type) ? f.Result(Complex(Real(t), -Imag(t))) : x;
  if (name == "is_inf") return f.Result(Equal(Abs(t), std::numeric_limits<double>::infinity()));
  if (name == "is_pos_inf") return f.Result(Equal(t, std::numeric_limits<double>::infinity()));
  if (name == "is_neg_inf") return f.Result(Equal(t, -std::numeric_limits<double>::infinity()));
  for (const UnaryRow& row : kUnary) {
    if (name != row.name) continue;
    bool known = IsFloat(type) || (row.complex && IsComplex(type));
    // The kernel is a function of complex numbers alone.
    if (!known || (row.make == AsinAcosKernel && !IsComplex(type))) return Unsupported(name, x);
    return f.Result(Convert(row.make(Convert(t, Widened(type))), type));
  }
  return absl::UnimplementedError(absl::StrCat("chlo.", name, " is not known"));
}

absl::StatusOr<Value> ExpandChloBinary(Builder& b, absl::string_view name, Value x, Value y) {
  PrimitiveType type = x->shape().element_type();
  if (!IsFloat(type) || type != y->shape().element_type()) return Unsupported(name, x);
  Formula f(&b, x->shape());
  if (name == "next_after") return f.Result(NextAfter(f.Of(x), f.Of(y)));
  for (const BinaryRow& row : kBinary) {
    if (name != row.name) continue;
    PrimitiveType wide = Widened(type);
    return f.Result(Convert(row.make(Convert(f.Of(x), wide), Convert(f.Of(y), wide)), type));
  }
  return absl::UnimplementedError(absl::StrCat("chlo.", name, " is not known"));
}

}  // namespace backplane::to_hlo
