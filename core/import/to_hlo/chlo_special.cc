// Special functions by the usual approximations: Lanczos' for the gamma function and its derivative, Euler and
// Maclaurin's summation for the zeta function, the Cephes library's Chebyshev series and rational functions for
// Bessel's and the complementary error function, and Giles' polynomials for the inverse error function.
#include <cmath>
#include <limits>

#include "core/import/erfc_coefficients.h"
#include "core/import/to_hlo/chlo_functions.h"

namespace backplane::to_hlo {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;

bool IsDouble(Term x) { return x.formula->GetType(x) == PrimitiveType::kF64; }

// Lanczos' approximation with g = 7 and nine coefficients: gamma(z + 1) = sqrt(2 pi) t^(z + 1/2) e^-t A(z), t = z + g +
// 1/2.
constexpr double kG = 7;
constexpr double kLanczos[] = {
    0.99999999999980993227684700473478, 676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,    12.507343278686904814458936853,
    -0.13857109526572011689554707,      9.984369578019570859563e-6,         1.50563273514931155834e-7};

struct LanczosTerms {
  Term z;      // x - 1, or -x for x < 1/2, which reflection then corrects
  Term sum;    // A(z)
  Term slope;  // its derivative
  Term t, log_t;
};

LanczosTerms Lanczos(Term x) {
  LanczosTerms l;
  l.z = Select(Less(x, 0.5), -x, x - 1.0);
  l.sum = Like(x, kLanczos[0]);
  l.slope = Like(x, 0);
  for (int i = 1; i < 9; ++i) {
    Term below = l.z + static_cast<double>(i);
    Term part = kLanczos[i] / below;
    l.sum = l.sum + part;
    l.slope = l.slope - part / below;
  }
  l.t = l.z + (kG + 0.5);
  l.log_t = std::log(kG + 0.5) + Log1p(l.z / (kG + 0.5));
  return l;
}

// Clenshaw's recurrence.
Term Chebyshev(Term x, absl::Span<const double> c) {
  Term b0 = Like(x, c[0]), b1 = Like(x, 0), b2 = b1;
  for (double next : c.subspan(1)) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + next;
  }
  return (b0 - b2) * 0.5;
}

}  // namespace

Term Lgamma(Term x) {
  LanczosTerms l = Lanczos(x);
  // (z + 1/2) log t - t, with log t factored out, so that no two large rounded numbers are subtracted.
  Term y = (l.z + 0.5 - l.t / l.log_t) * l.log_t + 0.91893853320467274178 + Log(l.sum);
  // gamma(x) gamma(1 - x) = pi / sin(pi x)
  Term size = Abs(x);
  Term fraction = size - Floor(size);
  fraction = Select(Greater(fraction, 0.5), 1.0 - fraction, fraction);
  Term reflected = std::log(kPi) - Log(Sin(fraction * kPi)) - y;
  reflected = Select(Equal(fraction, 0.0), kInfinity, reflected);
  return Select(Equal(size, kInfinity), kInfinity, Select(Less(x, 0.5), reflected, y));
}

Term Digamma(Term x) {
  LanczosTerms l = Lanczos(x);
  Term y = l.log_t + l.slope / l.sum - kG / l.t;
  // digamma(1 - x) - digamma(x) = pi cot(pi x); the cotangent has period one.
  Term angle = (x + Abs(Floor(x + 0.5))) * kPi;
  Term reflected = y - Cos(angle) * kPi / Sin(angle);
  reflected = Select(LessEqual(x, 0.0) & Equal(x, Floor(x)), kNan, reflected);
  return Select(Less(x, 0.5), reflected, y);
}

Term Zeta(Term x, Term q) {
  // (2j)! / B(2j), j = 1 .. 12
  static constexpr double kCoefficients[] = {12.0,
                                             -720.0,
                                             30240.0,
                                             -1209600.0,
                                             47900160.0,
                                             -1.8924375803183791606e9,
                                             7.47242496e10,
                                             -2.950130727918164224e12,
                                             1.1646782814350067249e14,
                                             -4.5979787224074726105e15,
                                             1.8152105401943546773e17,
                                             -7.1661652561756670113e18};
  constexpr int kDirect = 9;
  // Ten terms of the sum, the integral of the rest, half of the last, and the corrections by derivatives there.
  Term a = q;
  Term power = Power(a, -x), sum = power;
  for (int i = 0; i < kDirect; ++i) {
    a = a + 1.0;
    power = Power(a, -x);
    sum = sum + power;
  }
  Term whole = sum + power * a / (x - 1.0) - power * 0.5;
  Term derivative = x * power / a;  // x (x+1) .. (x+2j-2) a^(-x-2j+1)
  Term square = a * a;
  for (int j = 0; j < 12; ++j) {
    whole = whole + derivative / kCoefficients[j];
    derivative = derivative * ((x + (2.0 * j + 1)) * (x + (2.0 * j + 2)) / square);
  }
  // A last term that is nothing beside the sum ends it; its corrections may have overflowed.
  double epsilon = GetLimits(x.formula->GetType(x)).epsilon / 2;
  Term y = Select(Less(Abs(power), Abs(sum) * epsilon), sum, whole);
  Term pole = LessEqual(q, 0.0) & Equal(q, Floor(q));
  Term half = x * 0.5;
  y = Select(LessEqual(q, 0.0) & NotEqual(x, Floor(x)), kNan, y);
  y = Select(pole, Select(Equal(half, Floor(half)), kInfinity, Like(x, kNan)), y);
  y = Select(Less(x, 1.0), kNan, y);
  y = Select(Equal(x, 1.0), kInfinity, y);
  return Select(IsNan(x) | IsNan(q), kNan, y);
}

Term Polygamma(Term n, Term x) {
  Term order = n + 1.0;
  Term half = n * 0.5;
  Term size = Exp(Lgamma(order)) * Zeta(order, x);
  Term y = Select(Equal(half, Floor(half)), -size, size);
  y = Select(Equal(n, 0.0), Digamma(x), y);
  return Select(Less(n, 0.0) | NotEqual(n, Floor(n)), kNan, y);
}

Term ErfInv(Term x) {
  // M. Giles, "Approximating the erfinv function" (2011): polynomials in w = -log(1 - x^2), or in its root for the
  // tails. Near one, x * x would lose what 1 - x still knows.
  Term w = -(Log1p(-x) + Log1p(x));
  Term y;
  if (IsDouble(x)) {
    static constexpr double kCentre[] = {
        -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
        -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
        -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
        1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
        -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
        -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356};
    static constexpr double kTail[] = {
        2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
        1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
        -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
        0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
        0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635};
    static constexpr double kFarTail[] = {
        -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,  -3.7894654401267369937e-09,
        7.6157012080783393804e-09,  -1.4960026627149240478e-08, 2.9147953450901080826e-08,  -6.7711997758452339498e-08,
        2.2900482228026654717e-07,  -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
        7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977,
        4.8499064014085844221};
    Term root = Sqrt(w);
    Term tail = Select(Less(w, 16.0), Polynomial(root - 3.25, kTail), Polynomial(root - 5.0, kFarTail));
    y = Select(Less(w, 6.25), Polynomial(w - 3.125, kCentre), tail);
  } else {
    static constexpr double kCentre[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                         -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    static constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                       -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    y = Select(Less(w, 5.0), Polynomial(w - 2.5, kCentre), Polynomial(Sqrt(w) - 3.0, kTail));
  }
  return Select(Equal(Abs(x), 1.0), x * kInfinity, y * x);
}

Term Erfc(Term x) {
  Term size = Abs(x);
  // exp(-x^2) from a shorter x whose square is exact, and the small rest.
  Attributes cut;
  cut.Set(AttrId::kExponentBits, int64_t{IsDouble(x) ? 11 : 8});
  cut.Set(AttrId::kMantissaBits, int64_t{IsDouble(x) ? 25 : 11});
  // Beyond 32 the Gaussian is zero in every type; infinity would give NaN.
  Term bounded = Minimum(size, Like(x, 32));
  Term brief = x.formula->Op(Opcode::kReducePrecision, {bounded}, std::move(cut));
  Term gauss = Exp(-(brief * brief)) * Exp((brief - bounded) * (brief + bounded));
  Term tail;
  if (IsDouble(x)) {
    static constexpr double kFarOver[] = {5.64189583547755073984e-1, 1.27536670759978104416e0,
                                          5.01905042251180477414e0,  6.16021097993053585195e0,
                                          7.40974269950448939160e0,  2.97886665372100240670e0};
    static constexpr double kFarUnder[] = {1.0,
                                           2.26052863220117276590e0,
                                           9.39603524938001434673e0,
                                           1.20489539808096656605e1,
                                           1.70814450747565897222e1,
                                           9.60896809063285878198e0,
                                           3.36907645100081516050e0};
    Term near = Polynomial(bounded, kErfcNumerator) / Polynomial(bounded, kErfcDenominator);
    Term far = Polynomial(bounded, kFarOver) / Polynomial(bounded, kFarUnder);
    tail = gauss * Select(Less(size, 8.0), near, far);
  } else {
    static constexpr double kNear[] = {2.326819970068386e-2,  -1.387039388740657e-1, 3.687424674597105e-1,
                                       -5.824733027278666e-1, 6.210004621745983e-1,  -4.944515323274145e-1,
                                       3.404879937665872e-1,  -2.741127028184656e-1, 5.638259427386472e-1};
    static constexpr double kFar[] = {-1.047766399936249e1,  1.297719955372516e1,  -7.495518717768503e0,
                                      2.921019019210786e0,   -1.015265279202700e0, 4.218463358204948e-1,
                                      -2.820767439740514e-1, 5.641895067754075e-1};
    Term inverse = 1.0 / bounded;
    Term square = inverse * inverse;
    tail = gauss * inverse * Select(Less(size, 2.0), Polynomial(square, kNear), Polynomial(square, kFar));
  }
  tail = Select(Less(x, 0.0), 2.0 - tail, tail);
  return Select(Less(size, 1.0), 1.0 - x.formula->Op(Opcode::kErf, {x}), tail);
}

Term BesselI1e(Term x) {
  static constexpr double kNear[] = {
      2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16, -1.10559694773538630805e-15,
      7.60068429473540693410e-15, -5.04218550472791168711e-14, 3.22379336594557470981e-13, -1.98397439776494371520e-12,
      1.17361862988909016308e-11, -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
      9.38153738649577178388e-9,  -4.44505912879632808065e-8,  2.00329475355213526229e-7,  -8.56872026469545474066e-7,
      3.47025130813767847674e-6,  -1.32731636560394358279e-5,  4.78156510755005422638e-5,  -1.61760815825896745588e-4,
      5.12285956168575772895e-4,  -1.51357245063125314899e-3,  4.15642294431288815669e-3,  -1.05640848946261981558e-2,
      2.47264490306265168283e-2,  -5.29459812080949914269e-2,  1.02643658689847095384e-1,  -1.76416518357834055153e-1,
      2.52587186443633654823e-1};
  static constexpr double kFar[] = {
      7.51729631084210481353e-18,  4.41434832307170791151e-18,  -4.65030536848935832153e-17,
      -3.20952592199342395980e-17, 2.96262899764595013876e-16,  3.30820231092092828324e-16,
      -1.88035477551078244854e-15, -3.81440307243700780478e-15, 1.04202769841288027642e-14,
      4.27244001671195135429e-14,  -2.10154184277266431302e-14, -4.08355111109219731823e-13,
      -7.19855177624590851209e-13, 2.03562854414708950722e-12,  1.41258074366137813316e-11,
      3.25260358301548823856e-11,  -1.89749581235054123450e-11, -5.58974346219658380687e-10,
      -3.83538038596423702205e-9,  -2.63146884688951950684e-8,  -2.51223623787020892529e-7,
      -3.88256480887769039346e-6,  -1.10588938762623716291e-4,  -9.76109749136146840777e-3,
      7.78576235018280120474e-1};
  // f32 needs only the last terms of each series.
  absl::Span<const double> near_series(kNear), far_series(kFar);
  if (!IsDouble(x)) {
    near_series = near_series.subspan(12);
    far_series = far_series.subspan(18);
  }
  Term size = Abs(x);
  Term near = Chebyshev(size * 0.5 - 2.0, near_series) * size;
  Term far = Chebyshev(32.0 / size - 2.0, far_series) / Sqrt(size);
  return Sign(x) * Select(LessEqual(size, 8.0), near, far);
}

Term NextAfter(Term x, Term y) {
  Formula& f = *x.formula;
  PrimitiveType type = f.GetType(x), bits;
  switch (type) {
    case PrimitiveType::kF16:
    case PrimitiveType::kBF16:
      bits = PrimitiveType::kS16;
      break;
    case PrimitiveType::kF32:
      bits = PrimitiveType::kS32;
      break;
    case PrimitiveType::kF64:
      bits = PrimitiveType::kS64;
      break;
    default:
      f.Fail(absl::UnimplementedError("chlo.next_after is not supported for this element type"));
      return x;
  }
  // As an integer the magnitude's neighbours are one away, whatever the sign.
  Term number = Bitcast(x, bits);
  Term zero = f.Number(0, type);
  Term away = (Less(zero, x) & Less(x, y)) | (Less(x, zero) & Less(y, x));
  Term step = Select(away, f.Number(1, bits), f.Number(-1, bits));
  Term next = Bitcast(number + step, type);
  Term tiny = Bitcast(f.Number(1, bits), type);
  next = Select(Equal(x, 0.0), CopySign(tiny, y), next);
  next = Select(Equal(x, y), y, next);
  return Select(IsNan(x) | IsNan(y), kNan, next);
}

}  // namespace backplane::to_hlo
