#include "sdk/cli/fuzz/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/bounds_util.h"

namespace backplane::cli::fuzz {
namespace {

constexpr size_t kMaxParameters = 8;
constexpr int64_t kMaxElements = 6000;

using P = PrimitiveType;

bool Fits(Kind kind, PrimitiveType t) {
  switch (kind) {
    case Kind::kAny:
      return IsArrayType(t);
    case Kind::kFloat:
      return IsFloat(t);
    case Kind::kReal:
      return IsFloat(t) || IsIntegral(t);
    case Kind::kInteger:
      return IsIntegral(t);
    case Kind::kComplex:
      return IsComplex(t);
    case Kind::kPred:
      return t == P::kPred;
    case Kind::kNumber:
      return IsArrayType(t) && t != P::kPred;
    case Kind::kBits:
      return IsIntegral(t) || t == P::kPred;
  }
  return false;
}

// Each of these needs something that a single program on a single device lacks.
const std::map<Opcode, const char*>& Reasons() {
  static const auto* const reasons = new std::map<Opcode, const char*>{
      {Opcode::kAllGatherDone, "half of a collective"},
      {Opcode::kAllReduceDone, "half of a collective"},
      {Opcode::kCollectivePermuteDone, "half of a collective"},
      {Opcode::kCustomCall, "its meaning is a function that the host registers"},
  };
  return *reasons;
}

}  // namespace

std::string ExplainNotGenerated(Opcode opcode, int64_t devices) {
  const OpInfo& info = Info(opcode);
  if (devices > 1) {
    for (const Generator::Recipe& r : Generator::DeviceRecipes()) {
      if (std::find(r.makes.begin(), r.makes.end(), opcode) != r.makes.end()) return "";
    }
  }
  if (info.Has(kCollective)) return "a collective";
  if (info.Has(kSideEffect)) return "a side effect";
  const auto it = Reasons().find(opcode);
  return it == Reasons().end() ? "" : it->second;
}

void AddCoverage(const Module& module, Coverage& coverage) {
  for (const Computation* c : module.PostOrder()) {
    for (const auto& i : c->instructions()) {
      PrimitiveType type = i->shape().element_type();
      if (i->shape().IsTuple()) {
        type = P::kTuple;
        ForEachLeaf(i->shape(), [&](const Shape& leaf, const std::vector<int64_t>&) {
          if (type == P::kTuple && leaf.IsArray()) type = leaf.element_type();
        });
      }
      ++coverage[i->opcode()][type];
    }
  }
}

std::string PrintCoverage(const Coverage& coverage, int64_t devices) {
  std::string text;
  for (const OpInfo& info : Operations()) {
    const Opcode opcode = info.opcode;
    const auto it = coverage.find(opcode);
    if (it == coverage.end()) {
      const std::string why = ExplainNotGenerated(opcode, devices);
      absl::StrAppend(&text, OpName(opcode), ": ", why.empty() ? "never" : absl::StrCat("not generated, ", why), "\n");
      continue;
    }
    int64_t total = 0;
    std::string types;
    for (const auto& [type, count] : it->second) {
      total += count;
      absl::StrAppend(&types, " ", Name(type), "=", count);
    }
    absl::StrAppend(&text, OpName(opcode), ": ", total, " (", types.substr(1), ")\n");
  }
  return text;
}

absl::StatusOr<FuzzProgram> GenerateProgram(uint64_t seed, const GeneratorOptions& options) {
  return Generator(seed, options).Make();
}

Generator::Generator(uint64_t seed, const GeneratorOptions& options) : random_(seed), options_(options) {
  program_.seed = seed;
  program_.module = std::make_unique<Module>(absl::StrCat("fuzz_", seed));
  special_ = random_.Chance(20);
  large_ = random_.Chance(10);
  // Drawn from a separate generator, so that the other programs do not depend on the structured ones.
  structured_ = !options_.only.has_value() && Random(seed ^ 0x5747c3a1u).Chance(options_.structured);
  if (structured_) large_ = false;
  thresholds_ = Random(seed ^ 0x7e5401d5u).Chance(options_.thresholds);
  if (thresholds_) {
    structured_ = false;
    large_ = true;
    options_.least_steps = std::min(options_.least_steps, 2);
    options_.most_steps = std::min(options_.most_steps, 6);
    return;
  }
  if (options_.devices < 2 || !random_.Chance(options_.only.has_value() ? 100 : 30)) return;
  large_ = false;
  const int64_t count = random_.Between(2, options_.devices);
  std::vector<int64_t> replicas;
  for (int64_t r = 1; r <= count; ++r) {
    if (count % r == 0) replicas.push_back(r);
  }
  ModuleConfig& config = program_.module->config();
  config.num_replicas = options_.replicas_only ? count : random_.Pick(replicas);
  config.num_partitions = count / config.num_replicas;
}

const std::vector<Generator::Recipe>& Generator::Recipes() {
  static const auto* const recipes = [] {
    auto* all = new std::vector<Recipe>();
    for (auto make : {&ElementwiseRecipes, &MovementRecipes, &ReductionRecipes, &NumericRecipes, &ControlRecipes,
                      &BodyRecipes, &BoundedRecipes, &DeviceRecipes, &LoopRecipes, &SharingRecipes}) {
      for (Recipe& r : make()) all->push_back(std::move(r));
    }
    return all;
  }();
  return *recipes;
}

absl::StatusOr<FuzzProgram> Generator::Make() {
  Scope s(program_.module.get(), "main", 0);
  s.others.resize(static_cast<size_t>(GetDevices(*program_.module).count() - 1));
  int steps = static_cast<int>(random_.Between(options_.least_steps, options_.most_steps));
  if (structured_) steps = std::max(options_.least_steps, steps / 2);  // each of them is several operations
  for (int k = 0; k < steps; ++k) Step(s);
  // Values without users are returned, and also some with users: shared operands, several outputs.
  std::vector<Value> results;
  for (const Value v : s.values) {
    if (v->Is(Opcode::kParameter) || !v->users().empty()) continue;
    if (results.size() < 6) results.push_back(v);
  }
  for (int k = 0; k < 2 && !s.values.empty(); ++k) {
    if (random_.Chance(40) || results.empty()) results.push_back(random_.Pick(s.values));
  }
  if (structured_) AddAliasedResults(s, results);
  if (results.empty()) {
    Value v = MakeFreshValue(s, Shape(P::kF32, {3}));
    results.push_back(v);
  }
  Value root = results[0];
  if (results.size() > 1 || random_.Chance(10)) {
    ASSIGN_OR_RETURN(root, s.b.Tuple(results));
  }
  ASSIGN_OR_RETURN(Computation * main, s.b.Build(root));
  program_.module->set_entry(main);
  for (Computation* c : program_.module->PostOrder()) c->RemoveDead();
  program_.module->RemoveUnreachableComputations();
  // Removes parameters that only dropped values used.
  for (int64_t p = static_cast<int64_t>(main->parameters().size()) - 1; p >= 0; --p) {
    if (!main->parameter(p)->users().empty() || main->root() == main->parameter(p)) continue;
    RETURN_IF_ERROR(main->RemoveParameter(p));
    program_.arguments.erase(program_.arguments.begin() + p);
  }
  ChooseHandling();
  Random apart(program_.seed ^
               0x5c4ed01eu);  // a separate generator, so that the program is the same with and without a schedule
  if (apart.Chance(options_.in_flight) && CanBeScheduled(program_)) {
    MakeSchedule(apart, program_);
    // With the results of an earlier run as arguments, a loop might not end.
    if (!BoundSchedule(program_, *program_.module).ok()) {
      program_.schedule.clear();
      program_.helpers.clear();
    }
  }
  RETURN_IF_ERROR(VerifyModule(*program_.module));
  return std::move(program_);
}

void Generator::Bind(Scope& s, Value parameter, Literal argument) {
  s.bounded[parameter] = BoundedValue::Exact(argument);
  for (size_t d = 0; d < s.others.size(); ++d) {
    s.others[d][parameter] = BoundedValue::Exact(MakeDeviceArgument(argument, static_cast<int64_t>(d) + 1));
  }
  program_.arguments.push_back(std::move(argument));
}

void Generator::Step(Scope& s) {
  const bool wanted = options_.only.has_value() && s.depth == 0 && random_.Chance(50);
  std::vector<const Recipe*> possible;
  int total = 0;
  for (const Recipe& r : Recipes()) {
    if (s.plain && !r.plain) continue;
    if (options_.portable && !r.portable) continue;
    if (r.nests && s.depth >= 2) continue;
    if (r.devices && s.others.empty()) continue;
    if (r.structure && !structured_) continue;
    if (std::all_of(r.makes.begin(), r.makes.end(), [&](Opcode o) { return options_.without.count(o) > 0; })) continue;
    if (wanted && std::find(r.makes.begin(), r.makes.end(), *options_.only) == r.makes.end()) continue;
    possible.push_back(&r);
    total += r.weight;
  }
  if (possible.empty()) return;
  for (int attempt = 0; attempt < 4; ++attempt) {
    int64_t at = random_.Below(total);
    const Recipe* recipe = possible[0];
    for (const Recipe* r : possible) {
      recipe = r;
      if (at < r->weight) break;
      at -= r->weight;
    }
    const Value v = (this->*recipe->make)(s);
    if (v == nullptr || s.failed.count(v) > 0) continue;
    if (!v->shape().IsTuple() && options_.without.count(v->opcode()) > 0) continue;
    if (!IsUseful(GetBoundedValue(s, v))) continue;
    Keep(s, v);
    return;
  }
}

Value Generator::Add(Scope& s, const hlo::Result& v) {
  // A refused call may have left instructions; they are evaluated too, because later calls may use them.
  for (const auto& i : s.b.computation()->instructions()) {
    if (s.bounded.contains(i.get()) || s.failed.count(i.get()) > 0) continue;
    if (i->Is(Opcode::kParameter)) continue;  // its creator sets its value
    std::vector<std::vector<const BoundedValue*>> ops(s.others.size() + 1);
    bool known = true;
    for (const Instruction* o : i->operands()) {
      known = known && s.bounded.contains(o);
      if (!known) break;
      ops[0].push_back(&s.bounded.at(o));
      for (size_t d = 0; d < s.others.size(); ++d) ops[d + 1].push_back(&s.others[d].at(o));
    }
    absl::StatusOr<std::vector<BoundedValue>> j = absl::InternalError("");
    if (known) {
      // Called computations are evaluated for each device; this is the first one.
      j = BoundOnDevices(*i, ops, s.others.empty() ? Devices() : GetDevices(*program_.module));
    }
    if (j.ok()) {
      for (size_t d = 0; d < s.others.size(); ++d) s.others[d][i.get()] = std::move((*j)[d + 1]);
      s.bounded[i.get()] = std::move((*j)[0]);
    } else {
      s.failed.insert(i.get());
    }
  }
  if (!v.ok() || *v == nullptr || s.failed.count(*v) > 0) return nullptr;
  return *v;
}

bool Generator::IsUseful(const BoundedValue& j) const {
  if (j.is_tuple) {
    for (const BoundedValue& e : j.elements) {
      if (IsUseful(e)) return true;
    }
    return j.elements.empty();
  }
  if (!j.value.shape().IsArray()) return true;
  const int64_t n = j.value.num_elements();
  if (n > 40 * kMaxElements) return false;
  if (n == 0) return true;
  const PrimitiveType type = j.value.shape().element_type();
  const bool floats = IsFloat(ComplexPart(type));
  const Literal sizes = floats ? ComputeMagnitudes(j.value) : Literal();
  double most = 0;
  int64_t nans = 0, infinities = 0;
  for (int64_t i = 0; floats && i < n; ++i) {
    const double v = sizes.data<double>()[static_cast<size_t>(i)];
    if (std::isnan(v)) ++nans;
    if (v == kInf) ++infinities;
    if (v < kInf) most = std::max(most, v);
  }
  if (floats && !special_ && (nans + infinities) * 4 > n) return false;
  if (floats && special_ && nans * 10 > n * 8) return false;
  int64_t good = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double e = BoundAt(j.used, i);
    good += e == 0 || e <= std::max(0.02, 4 * GetEpsilon(type)) * most;
  }
  return good * 10 >= n * 6;
}

void Generator::Keep(Scope& s, Value v) {
  if (v->shape().IsArray()) {
    if (!v->shape().HasDynamicDimensions()) s.values.push_back(v);
    return;
  }
  if (!v->shape().IsTuple()) return;
  for (int64_t k = 0; k < v->shape().tuple_size(); ++k) {
    if (structured_ && random_.Chance(25)) continue;  // stays unused
    if (const Value e = Add(s, s.b.GetTupleElement(v, k)); e != nullptr && IsUseful(GetBoundedValue(s, e))) Keep(s, e);
  }
}

bool Generator::HasNan(const Scope& s, Value v) const {
  const Literal& l = GetBoundedValue(s, v).value;
  if (!IsFloat(ComplexPart(l.shape().element_type()))) return false;
  const Literal sizes = ComputeMagnitudes(l);
  for (const double e : sizes.data<double>()) {
    if (std::isnan(e)) return true;
  }
  return false;
}

PrimitiveType Generator::AnyType(Kind kind) {
  static const auto* const types = new std::vector<P>{P::kF32,
                                                      P::kF32,
                                                      P::kF32,
                                                      P::kF32,
                                                      P::kF32,
                                                      P::kF64,
                                                      P::kF64,
                                                      P::kF64,
                                                      P::kBF16,
                                                      P::kBF16,
                                                      P::kF16,
                                                      P::kF16,
                                                      P::kS32,
                                                      P::kS32,
                                                      P::kS32,
                                                      P::kS32,
                                                      P::kS64,
                                                      P::kS64,
                                                      P::kU32,
                                                      P::kU32,
                                                      P::kU64,
                                                      P::kS16,
                                                      P::kU16,
                                                      P::kS8,
                                                      P::kS8,
                                                      P::kU8,
                                                      P::kU8,
                                                      P::kPred,
                                                      P::kPred,
                                                      P::kPred,
                                                      P::kC64,
                                                      P::kC64,
                                                      P::kC128,
                                                      P::kC128,
                                                      P::kS4,
                                                      P::kU4,
                                                      P::kS2,
                                                      P::kU2,
                                                      P::kF8E5M2,
                                                      P::kF8E4M3FN,
                                                      P::kF8E4M3,
                                                      P::kF8E3M4,
                                                      P::kF8E4M3B11FNUZ,
                                                      P::kF8E5M2FNUZ,
                                                      P::kF8E4M3FNUZ,
                                                      P::kF4E2M1FN,
                                                      P::kF8E8M0FNU,
                                                      P::kF6E2M3FN,
                                                      P::kF6E3M2FN};
  for (int attempt = 0; true; ++attempt) {
    const P t = random_.Pick(*types);
    // The narrow types are rarer: few operations use them.
    if ((BitWidth(t) < 8 || (IsFloat(t) && BitWidth(t) <= 8)) && random_.Chance(60) && kind == Kind::kAny) continue;
    // This type contains only powers of two, neither zero nor sign: one program in a hundred is enough.
    if (t == P::kF8E8M0FNU && random_.Chance(60)) continue;
    if (options_.without_types.count(t) > 0 && attempt < 1000) continue;
    if (Fits(kind, t)) return t;
  }
}

int64_t Generator::AnySize(int64_t low, int64_t high) {
  static const auto* const thresholds =
      new std::vector<int64_t>{15, 16, 17, 31, 32, 33,  34,  35,  36,  37,  38,  39,  40,  47,  48,  49,  63,
                               64, 65, 95, 96, 97, 127, 128, 129, 191, 192, 193, 255, 256, 257, 511, 512, 513};
  if (!thresholds_ || !random_.Chance(50)) return random_.Between(low, high);
  // Small ones more often: programs with large matrices take long.
  return random_.Pick(*thresholds) >= 96 && random_.Chance(50) ? thresholds->at(static_cast<size_t>(random_.Below(19)))
                                                               : random_.Pick(*thresholds);
}

std::vector<int64_t> Generator::AnyDims(int64_t least_rank, int64_t most_rank) {
  static const auto* const sizes = new std::vector<int64_t>{1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 11, 16, 17, 33};
  static const auto* const ranks = new std::vector<int64_t>{0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5};
  int64_t rank = std::clamp(random_.Pick(*ranks), least_rank, most_rank);
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = random_.Pick(*sizes);
    if (structured_) size = std::min<int64_t>(size, 6);
    if (thresholds_) {
      size = AnySize(1, 9);
      if (count * size > 8 * kMaxElements) size = random_.Between(1, 3);
    } else if (large_ && random_.Chance(40)) {
      size = random_.Between(30, rank == 1 ? 3000 : 90);
    }
    if (random_.Chance(1)) size = 0;
    while (size > 1 && count * size > (large_ ? 8 * kMaxElements : kMaxElements / 4)) size = (size + 1) / 2;
    count *= std::max<int64_t>(size, 1);
    dims.push_back(size);
  }
  return dims;
}

Fill Generator::AnyFill() {
  if (special_ && random_.Chance(60)) return Fill::kSpecial;
  const int64_t at = random_.Below(10);
  return at < 3 ? Fill::kWhole : at < 7 ? Fill::kPlain : at < 8 ? Fill::kPositive : Fill::kWide;
}

Value Generator::Constant(Scope& s, const Shape& shape, std::optional<Fill> fill) {
  if (shape.num_elements() > 64) {
    const Value one =
        Add(s, s.b.Constant(MakeValues(random_, Shape(shape.element_type(), {}), fill.value_or(AnyFill()))));
    return one == nullptr ? nullptr : Add(s, s.b.BroadcastInDim(one, shape.dimensions(), {}));
  }
  return Add(s, s.b.Constant(MakeValues(random_, shape, fill.value_or(AnyFill()))));
}

Value Generator::MakeFreshValue(Scope& s, const Shape& shape, std::optional<Fill> fill) {
  if (options_.without_types.count(shape.element_type()) > 0) return nullptr;
  const bool must = fill == Fill::kDefinite || fill == Fill::kTriangular;
  if (s.depth == 0 && (must || (program_.arguments.size() < kMaxParameters && random_.Chance(80)))) {
    Literal values = MakeValues(random_, shape, fill.value_or(AnyFill()));
    hlo::Result p = hlo::Parameter(s.b, static_cast<int64_t>(program_.arguments.size()), shape);
    if (!p.ok()) return nullptr;
    Bind(s, *p, std::move(values));
    return *p;
  }
  if (must && shape.num_elements() > 64) return nullptr;
  return Constant(s, shape, fill);
}

Value Generator::Index(Scope& s, int64_t low, int64_t high, PrimitiveType type) {
  if (s.depth == 0 && program_.arguments.size() < kMaxParameters && random_.Chance(60)) {
    Literal l = Literal::ScalarInt(type, random_.Between(low, high));
    hlo::Result p = hlo::Parameter(s.b, static_cast<int64_t>(program_.arguments.size()), l.shape());
    if (!p.ok()) return nullptr;
    Bind(s, *p, std::move(l));
    return *p;
  }
  return Add(s, s.b.Constant(Literal::ScalarInt(type, random_.Between(low, high))));
}

Value Generator::Any(Scope& s, Kind kind, int64_t least_rank, int64_t most_rank) {
  if (random_.Chance(75)) {
    std::vector<Value> fitting;
    for (const Value v : s.values) {
      const Shape& shape = v->shape();
      if (Fits(kind, shape.element_type()) && shape.rank() >= least_rank && shape.rank() <= most_rank) {
        fitting.push_back(v);
      }
    }
    if (!fitting.empty()) {
      // Later recipes make longer chains.
      const int64_t n = static_cast<int64_t>(fitting.size());
      return fitting[static_cast<size_t>(std::max(random_.Below(n), random_.Below(n)))];
    }
  }
  const std::vector<int64_t> dims = AnyDims(least_rank, most_rank);
  const Value v = MakeFreshValue(s, Shape(AnyType(kind), dims));
  if (v != nullptr) s.values.push_back(v);
  return v;
}

Value Generator::Like(Scope& s, PrimitiveType type, absl::Span<const int64_t> dims) {
  const Shape shape(type, dims);
  if (random_.Chance(65)) {
    std::vector<Value> fitting;
    for (const Value v : s.values) {
      if (v->shape() == shape) fitting.push_back(v);
    }
    if (!fitting.empty()) return random_.Pick(fitting);
  }
  const Value v = MakeFreshValue(s, shape);
  if (v != nullptr) s.values.push_back(v);
  return v;
}

Value Generator::Identity(Scope& s, Opcode op, PrimitiveType type) {
  Literal l(Shape(type, {}));
  const bool has_infinity = BitWidth(type) >= 16 || type == P::kF8E5M2 || type == P::kF8E4M3 || type == P::kF8E3M4;
  switch (op) {
    case Opcode::kMultiply:
      l = type == P::kPred || IsIntegral(type) ? Literal::ScalarInt(type, 1) : Literal::Scalar(type, 1);
      break;
    case Opcode::kAnd:
      l = type == P::kPred ? Literal::ScalarInt(type, 1) : Literal::ScalarInt(type, -1);
      break;
    case Opcode::kMaximum:
    case Opcode::kMinimum: {
      const bool least = op == Opcode::kMaximum;  // the identity is the smallest value
      if (IsFloat(type)) {
        const double far = has_infinity ? kInf : MaxFinite(type);
        l = Literal::Scalar(type, least ? -far : far);
      } else if (type == P::kPred) {
        l = Literal::ScalarInt(type, least ? 0 : 1);
      } else {
        const int bits = BitWidth(type);
        const int64_t low = IsSigned(type) ? static_cast<int64_t>(~uint64_t{0} << (bits - 1)) : 0;
        const int64_t high = IsSigned(type) ? ~low : bits == 64 ? -1 : (int64_t{1} << bits) - 1;
        l = Literal::ScalarInt(type, least ? low : high);
      }
      break;
    }
    default:
      break;
  }
  return Add(s, s.b.Constant(std::move(l)));
}

Opcode Generator::PickOne(const std::vector<Opcode>& from) {
  if (options_.only.has_value() && random_.Chance(70) &&
      std::find(from.begin(), from.end(), *options_.only) != from.end()) {
    return *options_.only;
  }
  for (int attempt = 0; attempt < 10; ++attempt) {
    const Opcode o = random_.Pick(from);
    if (options_.without.count(o) == 0) return o;
  }
  return from[0];
}

Value Generator::RoundForProduct(Scope& s, Value v) {
  if (v == nullptr || !options_.bf16_products) return v;
  const P type = v->shape().element_type(), part = ComplexPart(type);
  if (!IsFloat(part) || BitWidth(part) <= 16) return v;
  if (IsComplex(type)) return nullptr;
  const Value narrow = Add(s, s.b.Convert(v, P::kBF16));
  return narrow == nullptr ? nullptr : Add(s, s.b.Convert(narrow, type));
}

Computation* Generator::Combiner(Scope& s, Opcode op, PrimitiveType type) {
  absl::StatusOr<Computation*> c = MakeScalarBinaryComputation(s.b.module(), op, type);
  return c.ok() ? *c : nullptr;
}

std::optional<Opcode> Generator::AnyCombiner(PrimitiveType type) {
  if (type == P::kPred) return PickOne({Opcode::kAnd, Opcode::kOr, Opcode::kXor, Opcode::kMaximum, Opcode::kMinimum});
  if (IsIntegral(type)) {
    return PickOne(
        {Opcode::kAdd, Opcode::kMultiply, Opcode::kMaximum, Opcode::kMinimum, Opcode::kAnd, Opcode::kOr, Opcode::kXor});
  }
  if (IsFloat(type)) {
    return PickOne({Opcode::kAdd, Opcode::kAdd, Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum, Opcode::kMultiply});
  }
  if (IsComplex(type)) return PickOne({Opcode::kAdd, Opcode::kAdd, Opcode::kMultiply});
  return std::nullopt;
}

std::vector<int64_t> Generator::ChooseSubset(int64_t n, int percent) {
  std::vector<int64_t> chosen;
  for (int64_t k = 0; k < n; ++k) {
    if (random_.Chance(percent)) chosen.push_back(k);
  }
  return chosen;
}

}  // namespace backplane::cli::fuzz
