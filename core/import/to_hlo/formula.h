// Formulas over arrays of floats with C++ operators, for the expansion of operations that HLO lacks.
//
//   Formula f(&builder, x->shape());
//   Term t = f.Of(x);
//   return f.Result(Sqrt(t * t + 1.0));
//
// Every Term of a Formula is an array of the same dimensions. Numbers become constants of the other operand's element
// type. After the first error terms have no value, and Result() returns the error. Terms must not outlive
// their Formula.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_FORMULA_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_FORMULA_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ir/builder.h"

namespace backplane::to_hlo {

class Formula;

struct Term {
  Formula* formula = nullptr;
  Value value = nullptr;  // null after an error
};

class Formula {
 public:
  Formula(Builder* builder, const Shape& shape) : builder_(builder), dims_(shape.dimensions()) {}
  Formula(const Formula&) = delete;
  Formula& operator=(const Formula&) = delete;

  Term Of(Value value) { return {this, value}; }
  Term Number(double value, PrimitiveType type);
  Term Op(Opcode opcode, std::initializer_list<Term> operands, Attributes attrs = {});
  Term MakeTyped(Opcode opcode, Term x, PrimitiveType to);  // convert and bitcast-convert
  absl::StatusOr<Value> Result(Term t) const { return status_.ok() ? absl::StatusOr<Value>(t.value) : status_; }
  // Returns the element type of a term, or f32 after an error.
  PrimitiveType GetType(Term t) const {
    return status_.ok() && t.value ? t.value->shape().element_type() : PrimitiveType::kF32;
  }
  void Fail(absl::Status status) { status_.Update(std::move(status)); }

 private:
  Builder* builder_;
  DimVector dims_;
  absl::Status status_;
  std::map<std::pair<PrimitiveType, uint64_t>, Value> numbers_;
};

// Returns a constant of t's element type.
Term Like(Term t, double value);

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term operator-(Term a);
Term operator+(Term a, double b);
Term operator+(double a, Term b);
Term operator-(Term a, double b);
Term operator-(double a, Term b);
Term operator*(Term a, double b);
Term operator*(double a, Term b);
Term operator/(Term a, double b);
Term operator/(double a, Term b);

// Logical operators on preds.
Term operator&(Term a, Term b);
Term operator|(Term a, Term b);
Term operator!(Term a);

Term Less(Term a, Term b);
Term LessEqual(Term a, Term b);
Term Equal(Term a, Term b);
Term NotEqual(Term a, Term b);
Term Less(Term a, double b);
Term LessEqual(Term a, double b);
Term Greater(Term a, double b);
Term GreaterEqual(Term a, double b);
Term Equal(Term a, double b);
Term IsNan(Term a);
Term SignBit(Term a);  // pred: negative, a negative zero and a negative NaN included; f16, bf16, f32, f64

Term Select(Term pred, Term a, Term b);
Term Select(Term pred, Term a, double b);
Term Select(Term pred, double a, Term b);

Term Abs(Term a);
Term Ceil(Term a);
Term Cos(Term a);
Term Exp(Term a);
Term Expm1(Term a);
Term Floor(Term a);
Term Log(Term a);
Term Log1p(Term a);
Term Sign(Term a);
Term Sin(Term a);
Term Sqrt(Term a);
Term Atan2(Term y, Term x);
Term Power(Term a, Term b);
Term Maximum(Term a, Term b);
Term Minimum(Term a, Term b);
Term Hypot(Term a, Term b);  // sqrt(a^2 + b^2) without overflow or underflow between; f32 and f64
Term CopySign(Term magnitude, Term sign);
Term Real(Term a);
Term Imag(Term a);
Term Complex(Term re, Term im);
Term Convert(Term a, PrimitiveType to);
Term Bitcast(Term a, PrimitiveType to);  // same width

// Returns c[0] x^n + ... + c[n], computed by Horner's rule.
Term Polynomial(Term x, absl::Span<const double> c);

// The largest finite number, the smallest normal number, and the distance from 1 to the next number of f16, bf16, f32
// or f64.
struct FloatLimits {
  double max, min, epsilon;
};
FloatLimits GetLimits(PrimitiveType type);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_FORMULA_H_
