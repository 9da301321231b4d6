// Random programs with loops, branches, updates, products, sorts and donated arguments through the whole plugin and
// through the evaluator. PROGRAM_FUZZ_SEEDS=first,count runs others than the usual.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/random_control_program.h"
#include "gtest/gtest.h"
#include "sdk/engine/compiler/program_testing.h"

namespace backplane::engine {
namespace {

struct Value {
  std::string name;
  char type;  // f: f32, s: s32, p: pred
  std::vector<int> dims;
  bool constant = false;  // depends on no argument
  bool raw = false;       // a sum or product of floats: only a result, lest rounding grows
};

using Scope = std::vector<Value>;

std::string FormatShape(char type, const std::vector<int>& dims) {
  return absl::StrCat(type == 'f' ? "f32" : type == 's' ? "s32" : "pred", "[", absl::StrJoin(dims, ","), "]");
}

std::string TupleText(const Scope& values) {
  std::vector<std::string> shapes;
  for (const Value& v : values) shapes.push_back(FormatShape(v.type, v.dims));
  return absl::StrCat("(", absl::StrJoin(shapes, ", "), ")");
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  std::string Make() {
    Scope scope;
    std::string body;
    const int parameters = 2 + Pick(3);
    for (int p = 0; p < parameters; ++p) {
      Add(scope, body, p > 0 && Pick(4) == 0 ? 's' : 'f', SomeDims(), absl::StrCat("parameter(", p, ")"));
    }
    const Scope arguments = scope;
    Fill(scope, body, 6 + Pick(14), 2);
    Scope results;
    const int count = 2 + Pick(5);
    for (int k = 0; k < count; ++k) results.push_back(scope[static_cast<size_t>(Pick(static_cast<int>(scope.size())))]);
    results.push_back(scope.back());
    std::vector<std::string> names;
    for (const Value& v : results) names.push_back(v.name);
    absl::StrAppend(&body, "  ROOT result = ", TupleText(results), " tuple(", absl::StrJoin(names, ", "), ")\n");
    // Arguments given away to results of their shape.
    std::vector<std::string> aliases;
    std::vector<bool> taken(results.size(), false);
    for (size_t p = 0; p < arguments.size(); ++p) {
      for (size_t k = 0; k < results.size(); ++k) {
        if (taken[k] || results[k].type != arguments[p].type || results[k].dims != arguments[p].dims || Pick(2))
          continue;
        taken[k] = true;
        aliases.push_back(absl::StrCat("{", k, "}: (", p, ", {}, may-alias)"));
        break;
      }
    }
    std::string head = "HloModule m";
    if (!aliases.empty()) absl::StrAppend(&head, ", input_output_alias={ ", absl::StrJoin(aliases, ", "), " }");
    return absl::StrCat(head, R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
iadd { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
set { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
iset { a = s32[] parameter(0) ROOT b = s32[] parameter(1) }
less { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
)",
                        called_, "ENTRY e {\n", body, "}\n");
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  // Few shapes in one program, so that its values meet.
  std::vector<int> SomeDims() {
    static const std::vector<int> kDims[] = {{4}, {16}, {4, 4}, {4, 16}, {16, 4}, {3, 5}, {2, 4, 4}, {40, 40}};
    if (dims_.empty()) dims_ = {{}, kDims[Pick(8)], kDims[Pick(8)]};
    return dims_[static_cast<size_t>(Pick(3))];
  }

  std::string Fresh() { return absl::StrCat("v", next_++); }
  Value Add(Scope& scope, std::string& body, char type, const std::vector<int>& dims, const std::string& op) {
    Value v{Fresh(), type, dims, op.compare(0, 8, "constant") == 0 || op.compare(0, 4, "iota") == 0};
    absl::StrAppend(&body, "  ", v.name, " = ", FormatShape(type, dims), " ", op, "\n");
    scope.push_back(v);
    return v;
  }
  const Value& Recent(const Scope& scope, int within) {
    const int n = static_cast<int>(scope.size());
    for (int round = 0;; ++round) {
      const Value& v = scope[static_cast<size_t>(n - 1 - Pick(std::min(within, n)))];
      if (!v.raw && (!v.constant || round > 5)) return v;
      if (round > 50) return scope[0];
    }
  }

  // One element of some value, of this type.
  Value Scalar(Scope& scope, std::string& body, char type) {
    Scope fits;
    for (const Value& v : scope) {
      if (v.type == type && !v.constant && !v.raw) fits.push_back(v);
    }
    if (fits.empty() || Pick(8) == 0) {
      return Add(
          scope, body, type, {},
          type == 'f' ? absl::StrCat("constant(0.", 1 + Pick(8), ")") : absl::StrCat("constant(", Pick(5) - 1, ")"));
    }
    Value v = fits[static_cast<size_t>(Pick(static_cast<int>(fits.size())))];
    if (v.dims.empty()) return v;
    std::vector<std::string> parts;
    std::vector<int> ones(v.dims.size(), 1);
    for (int e : v.dims) {
      const int at = Pick(e);
      parts.push_back(absl::StrCat("[", at, ":", at + 1, "]"));
    }
    v = Add(scope, body, type, ones, absl::StrCat("slice(", v.name, "), slice={", absl::StrJoin(parts, ", "), "}"));
    return Add(scope, body, type, {}, absl::StrCat("reshape(", v.name, ")"));
  }

  // A value of this type and shape: one there is, preferably a late one, or a broadcast.
  Value Like(Scope& scope, std::string& body, char type, const std::vector<int>& dims) {
    Scope fits;
    for (const Value& v : scope) {
      if (v.type == type && v.dims == dims && !v.constant && !v.raw) fits.push_back(v);
    }
    if (!fits.empty() && Pick(8) != 0) {
      const int n = static_cast<int>(fits.size());
      return fits[static_cast<size_t>(n - 1 - Pick(Pick(2) ? n : std::min(n, 3)))];
    }
    if (type == 'p') {
      const Value a = Like(scope, body, 's', dims), b = Like(scope, body, 's', dims);
      return Add(scope, body, 'p', dims,
                 absl::StrCat("compare(", a.name, ", ", b.name, "), direction=", Pick(2) ? "LT" : "NE"));
    }
    if (!dims.empty() && Pick(6) == 0)
      return Add(scope, body, type, dims, absl::StrCat("iota(), iota_dimension=", Pick(static_cast<int>(dims.size()))));
    const Value c = Scalar(scope, body, type);
    return dims.empty() ? c : Add(scope, body, type, dims, absl::StrCat("broadcast(", c.name, "), dimensions={}"));
  }

  void Fill(Scope& scope, std::string& body, int steps, int depth) {
    for (int k = 0; k < steps; ++k) Step(scope, body, depth);
  }

  // Keeps sums and products of floats in a range where rounding stays small.
  Value Calm(Scope& scope, std::string& body, const Value& v) {
    for (Value& s : scope) s.raw |= v.type == 'f' && s.name == v.name;
    return v.type == 'f' ? Add(scope, body, 'f', v.dims, absl::StrCat(Pick(2) ? "tanh(" : "sine(", v.name, ")")) : v;
  }

  // A product of matrices divided by about its terms, so that loops do not make rounding grow.
  void Mean(Scope& scope, std::string& body, const Value& v) {
    for (Value& s : scope) s.raw |= s.name == v.name;
    const Value c = Add(scope, body, 'f', {}, "constant(0.03)");
    const Value b = Add(scope, body, 'f', v.dims, absl::StrCat("broadcast(", c.name, "), dimensions={}"));
    Add(scope, body, 'f', v.dims, absl::StrCat("multiply(", v.name, ", ", b.name, ")"));
  }

  void Step(Scope& scope, std::string& body, int depth) {
    const Value v = Recent(scope, 8);
    const int rank = static_cast<int>(v.dims.size());
    const std::string reducer = v.type == 'f' ? "add" : "iadd";
    switch (Pick(19)) {
      case 0:
        if (v.type == 'f')
          Add(scope, body, 'f', v.dims, absl::StrCat(Pick(2) ? "negate(" : "tanh(", v.name, ")"));
        else if (v.type == 's')
          Add(scope, body, 'f', v.dims,
              absl::StrCat("sine(", Add(scope, body, 'f', v.dims, absl::StrCat("convert(", v.name, ")")).name, ")"));
        return;
      case 1:
      case 2:
      case 3: {
        const Value w = Like(scope, body, v.type, v.dims);
        static const char* kOps[] = {"add", "subtract", "maximum", "multiply"};
        const Value r = Add(
            scope, body, v.type, v.dims,
            absl::StrCat(v.type == 'p' ? (Pick(2) ? "and" : "xor") : kOps[Pick(4)], "(", v.name, ", ", w.name, ")"));
        Calm(scope, body, r);
        return;
      }
      case 4: {
        const char type = Pick(3) == 0 ? 's' : 'f';
        const Value p = Like(scope, body, 'p', v.dims), a = Like(scope, body, type, v.dims),
                    b = Like(scope, body, type, v.dims);
        Add(scope, body, type, v.dims, absl::StrCat("select(", p.name, ", ", a.name, ", ", b.name, ")"));
        return;
      }
      case 5: {  // product
        if (v.type != 'f' || rank != 2 || v.dims[0] > 16) return;
        const Value w = Like(scope, body, 'f', {v.dims[1], v.dims[0]});
        Mean(scope, body,
             Add(scope, body, 'f', {v.dims[0], v.dims[0]},
                 absl::StrCat("dot(", v.name, ", ", w.name, "), lhs_contracting_dims={1}, rhs_contracting_dims={0}")));
        return;
      }
      case 6: {  // product of one value with itself, transposed
        if (v.type != 'f' || rank != 2) return;
        const Value d =
            Add(scope, body, 'f', {v.dims[1], v.dims[1]},
                absl::StrCat("dot(", v.name, ", ", v.name, "), lhs_contracting_dims={0}, rhs_contracting_dims={0}"));
        Mean(scope, body, d);
        return;
      }
      case 7: {  // reduce, and sometimes back to the rows
        if (v.type == 'p' || rank == 0) return;
        const int d = Pick(rank);
        std::vector<int> out = v.dims, map;
        out.erase(out.begin() + d);
        const bool max = v.type == 'f' && Pick(2);
        const Value z = Add(scope, body, v.type, {}, max ? "constant(-inf)" : "constant(0)");
        Value r = Add(
            scope, body, v.type, out,
            absl::StrCat("reduce(", v.name, ", ", z.name, "), dimensions={", d, "}, to_apply=", max ? "max" : reducer));
        scope.erase(scope.end() - 2);  // no infinity for others
        r = Calm(scope, body, r);
        if (Pick(2)) return;
        for (int k = 0; k < rank; ++k) {
          if (k != d) map.push_back(k);
        }
        const Value b = Add(scope, body, v.type, v.dims,
                            absl::StrCat("broadcast(", r.name, "), dimensions={", absl::StrJoin(map, ","), "}"));
        Calm(scope, body, Add(scope, body, v.type, v.dims, absl::StrCat("subtract(", v.name, ", ", b.name, ")")));
        return;
      }
      case 8: {  // transpose
        if (rank < 2) return;
        std::vector<int> p(static_cast<size_t>(rank)), dims;
        for (int d = 0; d < rank; ++d) p[static_cast<size_t>(d)] = d;
        std::shuffle(p.begin(), p.end(), random_);
        for (int d : p) dims.push_back(v.dims[static_cast<size_t>(d)]);
        Add(scope, body, v.type, dims,
            absl::StrCat("transpose(", v.name, "), dimensions={", absl::StrJoin(p, ","), "}"));
        return;
      }
      case 9: {  // reshape
        if (rank == 0) return;
        std::vector<int> dims = v.dims;
        if (rank > 1) {
          dims[0] *= dims[1];
          dims.erase(dims.begin() + 1);
        } else if (dims[0] == 16) {
          dims = {4, 4};
        } else {
          dims.insert(dims.begin(), 1);
        }
        Add(scope, body, v.type, dims, absl::StrCat("reshape(", v.name, ")"));
        return;
      }
      case 10: {  // slice and concatenate
        if (rank == 0 || v.dims[0] < 2) return;
        std::vector<std::string> low, high;
        std::vector<int> first = v.dims, second = v.dims;
        first[0] = 1 + Pick(v.dims[0] - 1);
        second[0] -= first[0];
        for (int d = 0; d < rank; ++d) {
          const int e = v.dims[static_cast<size_t>(d)];
          low.push_back(absl::StrCat("[0:", d == 0 ? first[0] : e, "]"));
          high.push_back(absl::StrCat("[", d == 0 ? first[0] : 0, ":", e, "]"));
        }
        const Value a = Add(scope, body, v.type, first,
                            absl::StrCat("slice(", v.name, "), slice={", absl::StrJoin(low, ", "), "}"));
        const Value b = Add(scope, body, v.type, second,
                            absl::StrCat("slice(", v.name, "), slice={", absl::StrJoin(high, ", "), "}"));
        Add(scope, body, v.type, v.dims, absl::StrCat("concatenate(", b.name, ", ", a.name, "), dimensions={0}"));
        return;
      }
      case 11:
      case 12: {  // a window taken, changed and put back
        if (rank == 0) return;
        std::vector<std::string> starts;
        std::vector<int> dims;
        for (int e : v.dims) {
          starts.push_back(Like(scope, body, 's', {}).name);
          dims.push_back(1 + Pick(e));
        }
        const std::string at = absl::StrJoin(starts, ", ");
        const Value s = Add(scope, body, v.type, dims,
                            absl::StrCat("dynamic-slice(", v.name, ", ", at, "), dynamic_slice_sizes={",
                                         absl::StrJoin(dims, ","), "}"));
        const Value u = v.type == 'p' ? s : Add(scope, body, v.type, dims, absl::StrCat("negate(", s.name, ")"));
        const Value w = Pick(3) ? v : Like(scope, body, v.type, v.dims);
        Add(scope, body, v.type, v.dims, absl::StrCat("dynamic-update-slice(", w.name, ", ", u.name, ", ", at, ")"));
        return;
      }
      case 13: {  // rows by number
        if (v.type == 'p' || rank == 0) return;
        const Value i = Like(scope, body, 's', {4});
        std::vector<int> dims = {4}, offsets, sizes = {1};
        for (int d = 1; d < rank; ++d) {
          dims.push_back(v.dims[static_cast<size_t>(d)]);
          offsets.push_back(d);
          sizes.push_back(v.dims[static_cast<size_t>(d)]);
        }
        const Value g =
            Add(scope, body, v.type, dims,
                absl::StrCat("gather(", v.name, ", ", i.name, "), offset_dims={", absl::StrJoin(offsets, ","),
                             "}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={",
                             absl::StrJoin(sizes, ","), "}"));
        const Value j = Pick(2) ? i : Like(scope, body, 's', {4});
        const bool add = Pick(2);
        const Value r = Add(
            scope, body, v.type, v.dims,
            absl::StrCat("scatter(", v.name, ", ", j.name, ", ", g.name, "), update_window_dims={",
                         absl::StrJoin(offsets, ","),
                         "}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=",
                         add             ? reducer
                         : v.type == 'f' ? "set"
                                         : "iset"));
        if (add) Calm(scope, body, r);
        return;
      }
      case 14:
        if (v.type == 's' && rank > 0)
          Add(scope, body, 's', v.dims, absl::StrCat("sort(", v.name, "), dimensions={", rank - 1, "}, to_apply=less"));
        return;
      case 15:
      case 16:
        if (depth > 0) Loop(scope, body, depth - 1);
        return;
      case 17:
      case 18:
        if (depth > 0) Branch(scope, body, depth - 1);
        return;
    }
  }

  // Some values of the scope, some of them more than once.
  Scope Chosen(const Scope& scope, int count) {
    Scope chosen;
    for (int k = 0; k < count; ++k) chosen.push_back(Recent(scope, 10));
    return chosen;
  }

  Scope Unpack(const Scope& values, const std::string& tuple, std::string& body) {
    Scope inside;
    for (size_t k = 0; k < values.size(); ++k) {
      Add(inside, body, values[k].type, values[k].dims, absl::StrCat("get-tuple-element(", tuple, "), index=", k));
    }
    return inside;
  }

  static std::string Pack(const Scope& values) {
    std::vector<std::string> names;
    for (const Value& v : values) names.push_back(v.name);
    return absl::StrCat(TupleText(values), " tuple(", absl::StrJoin(names, ", "), ")");
  }

  void Loop(Scope& scope, std::string& body, int depth) {
    Scope state = Chosen(scope, 1 + Pick(4));
    state.insert(state.begin(), Add(scope, body, 's', {}, "constant(0)"));
    const std::string type = TupleText(state), tuple = Fresh(), name = Fresh();
    absl::StrAppend(&body, "  ", tuple, " = ", Pack(state), "\n");
    std::string condition, loop_body;
    {
      Scope inside = Unpack(state, "state", condition);
      const Value n = Add(inside, condition, 's', {}, absl::StrCat("constant(", Pick(5), ")"));
      absl::StrAppend(&condition, "  ROOT go = pred[] compare(", inside[0].name, ", ", n.name, "), direction=LT\n");
    }
    {
      Scope inside = Unpack(state, "state", loop_body);
      const Value one = Add(inside, loop_body, 's', {}, "constant(1)");
      const Value next = Add(inside, loop_body, 's', {}, absl::StrCat("add(", inside[0].name, ", ", one.name, ")"));
      Fill(inside, loop_body, 2 + Pick(7), depth);
      Scope after = {next};
      for (size_t k = 1; k < state.size(); ++k) after.push_back(Like(inside, loop_body, state[k].type, state[k].dims));
      absl::StrAppend(&loop_body, "  ROOT next = ", Pack(after), "\n");
    }
    absl::StrAppend(&called_, name, "_cond {\n  state = ", type, " parameter(0)\n", condition, "}\n", name,
                    "_body {\n  state = ", type, " parameter(0)\n", loop_body, "}\n");
    const std::string loop = Fresh();
    absl::StrAppend(&body, "  ", loop, " = ", type, " while(", tuple, "), condition=", name, "_cond, body=", name,
                    "_body\n");
    for (Value& v : Unpack(state, loop, body)) scope.push_back(v);
  }

  void Branch(Scope& scope, std::string& body, int depth) {
    const Scope results = Chosen(scope, 1 + Pick(3));  // their shapes are those of the results
    const bool by_index = Pick(2);
    const Value selector = Like(scope, body, by_index ? 's' : 'p', {});
    const int branches = by_index ? 1 + Pick(3) : 2;
    std::vector<std::string> operands = {selector.name}, names;
    for (int b = 0; b < branches; ++b) {
      const Scope given = Chosen(scope, 1 + Pick(3));
      const std::string tuple = Fresh(), name = Fresh();
      absl::StrAppend(&body, "  ", tuple, " = ", Pack(given), "\n");
      std::string text;
      Scope inside = Unpack(given, "given", text);
      Fill(inside, text, Pick(6), depth);
      Scope after;
      for (const Value& r : results) after.push_back(Like(inside, text, r.type, r.dims));
      absl::StrAppend(&called_, name, " {\n  given = ", TupleText(given), " parameter(0)\n", text,
                      "  ROOT after = ", Pack(after), "\n}\n");
      operands.push_back(tuple);
      names.push_back(name);
    }
    const std::string choice = Fresh();
    absl::StrAppend(&body, "  ", choice, " = ", TupleText(results), " conditional(", absl::StrJoin(operands, ", "),
                    "), ");
    if (by_index) {
      absl::StrAppend(&body, "branch_computations={", absl::StrJoin(names, ", "), "}\n");
    } else {
      absl::StrAppend(&body, "true_computation=", names[0], ", false_computation=", names[1], "\n");
    }
    for (Value& v : Unpack(results, choice, body)) scope.push_back(v);
  }

  std::mt19937 random_;
  std::vector<std::vector<int>> dims_;
  int next_ = 0;
  std::string called_;
};

TEST(ProgramFuzz, RandomPrograms) {
  int first = 1, count = 150;
  const char* seeds = std::getenv("PROGRAM_FUZZ_SEEDS");
  if (seeds != nullptr) std::sscanf(seeds, "%d,%d", &first, &count);
  for (int seed = first; seed < first + count; ++seed) {
    const std::string hlo = Generator(static_cast<uint32_t>(seed)).Make();
    ProgramRunOptions options;
    options.seed = static_cast<uint32_t>(seed);
    options.low = -1;
    options.high = 1;
    options.int_low = -2;
    options.int_high = 5;
    options.tolerance = 2e-3;
    options.stored = seed % 8 == 0;
    EXPECT_EQ(ProgramDifference(hlo, options), "") << "seed " << seed << "\n" << hlo;
    if (HasFailure() && seeds == nullptr) return;
  }
}

// Functions, loops and branches that share what they call, and conditions with state of their own.
TEST(ProgramFuzz, RandomControlPrograms) {
  int first = 1, count = 60;
  const char* seeds = std::getenv("PROGRAM_FUZZ_SEEDS");
  if (seeds != nullptr) std::sscanf(seeds, "%d,%d", &first, &count);
  for (int seed = first; seed < first + count; ++seed) {
    const std::unique_ptr<Module> module = MakeRandomControlProgram(static_cast<uint32_t>(seed));
    ProgramRunOptions options;
    options.seed = static_cast<uint32_t>(seed);
    options.stored = seed % 8 == 0;
    EXPECT_EQ(ProgramDifference(*module, options), "") << "seed " << seed << "\n" << module->ToString();
    if (HasFailure() && seeds == nullptr) return;
  }
}

}  // namespace
}  // namespace backplane::engine
