// Random fusions through the kernel and through the evaluator. KERNEL_FUZZ_SEEDS=first,count runs others than the
// usual.
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "sdk/engine/codegen/kernel_testing.h"

namespace backplane::engine::codegen {
namespace {

struct Node {
  std::string name;
  char type;  // f: f32, s: s32, p: pred
  std::vector<int> dims;
};

class Fuzzer {
 public:
  explicit Fuzzer(uint32_t seed) : random_(seed) {}

  std::string Make() {
    int parameters = 1 + Pick(3);
    for (int i = 0; i < parameters; ++i) {
      std::vector<int> dims;
      int rank = Pick(4);
      for (int d = 0; d < rank; ++d) dims.push_back(Extent());
      Add(Pick(5) == 0 ? 's' : 'f', dims, absl::StrCat("parameter(", i, ")"));
    }
    Add('f', {}, "constant(0.25)");
    Add('s', {}, "constant(3)");
    int steps = 3 + Pick(12);
    for (int i = 0; i < steps; ++i) Step();
    int outputs = 1 + (Pick(3) == 0) + (Pick(5) == 0);
    std::string text = absl::StrCat(
        "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n",
        "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n",
        "iadd { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }\n",
        "or { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(a, b) }\nENTRY e {\n", body_);
    std::vector<std::string> names, shapes;
    for (int k = 0; k < outputs; ++k) {
      // Late values, so that much of the graph is used.
      const Node& n = nodes_[nodes_.size() - 1 - (k == 0 ? 0 : Pick(static_cast<int>(nodes_.size()) / 2))];
      names.push_back(n.name);
      shapes.push_back(Shape(n.type, n.dims));
    }
    absl::StrAppend(&text, "  ROOT out = (", absl::StrJoin(shapes, ", "), ") tuple(", absl::StrJoin(names, ", "),
                    ")\n}\n");
    return text;
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  int Extent() {
    static const int kExtents[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33, 40, 64};
    return kExtents[Pick(13)];
  }
  static std::string Shape(char t, const std::vector<int>& dims) {
    return absl::StrCat(t == 'f' ? "f32" : t == 's' ? "s32" : "pred", "[", absl::StrJoin(dims, ","), "]");
  }
  static int64_t Count(const std::vector<int>& dims) {
    int64_t n = 1;
    for (int d : dims) n *= d;
    return n;
  }
  std::string Add(char type, const std::vector<int>& dims, const std::string& op) {
    std::string name = absl::StrCat("v", made_++);
    absl::StrAppend(&body_, "  ", name, " = ", Shape(type, dims), " ", op, "\n");
    nodes_.push_back({name, type, dims});
    return name;
  }
  // A value of this type and shape: one there is, or a broadcast constant.
  std::string Like(char type, const std::vector<int>& dims) {
    std::vector<std::string> fits;
    for (const Node& n : nodes_) {
      if (n.type == type && n.dims == dims) fits.push_back(n.name);
    }
    if (!fits.empty() && Pick(5) != 0) return fits[Pick(static_cast<int>(fits.size()))];
    if (type == 'f' && !dims.empty() && Pick(2) == 0) {
      // A value of some of the dimensions, broadcast.
      for (const Node& n : nodes_) {
        if (n.type != 'f' || n.dims.empty() || n.dims.size() >= dims.size()) continue;
        std::vector<int> map;
        size_t at = 0;
        for (int d : n.dims) {
          while (at < dims.size() && dims[at] != d) ++at;
          if (at < dims.size()) map.push_back(static_cast<int>(at++));
        }
        if (map.size() == n.dims.size())
          return Add('f', dims, absl::StrCat("broadcast(", n.name, "), dimensions={", absl::StrJoin(map, ","), "}"));
      }
    }
    if (type == 'p') {
      std::string a = Like('f', dims), b = Like('f', dims);
      return Add('p', dims, absl::StrCat("compare(", a, ", ", b, "), direction=", Pick(2) ? "LT" : "GE"));
    }
    if (!dims.empty() && Pick(3) == 0)
      return Add(type, dims, absl::StrCat("iota(), iota_dimension=", Pick(static_cast<int>(dims.size()))));
    std::string c = Add(type, {}, type == 'f' ? "constant(0.5)" : "constant(2)");
    if (dims.empty()) return c;
    return Add(type, dims, absl::StrCat("broadcast(", c, "), dimensions={}"));
  }

  void Step() {
    Node n = nodes_[nodes_.size() - 1 - Pick(std::min<int>(6, static_cast<int>(nodes_.size())))];
    int rank = static_cast<int>(n.dims.size());
    switch (Pick(18)) {
      case 0:
      case 1:
        if (n.type == 'f') {
          static const char* kOps[] = {"tanh", "negate", "abs", "sine", "logistic", "floor"};
          Add('f', n.dims, absl::StrCat(kOps[Pick(6)], "(", n.name, ")"));
        }
        return;
      case 2:
      case 3:
      case 4:
        if (n.type != 'p') {
          static const char* kOps[] = {"add", "subtract", "maximum", "minimum"};
          std::string other = Like(n.type, n.dims);
          Add(n.type, n.dims, absl::StrCat(kOps[Pick(4)], "(", n.name, ", ", other, ")"));
        } else {
          std::string a = Like('f', n.dims), b = Like('f', n.dims);
          Add('f', n.dims, absl::StrCat("select(", n.name, ", ", a, ", ", b, ")"));
        }
        return;
      case 5:
      case 6: {  // broadcast
        if (rank >= 4 || Count(n.dims) > 20000) return;
        std::vector<int> dims, map;
        int extra = Pick(rank + 1);
        for (int d = 0; d <= rank; ++d) {
          if (d == extra) dims.push_back(Extent());
          if (d < rank) {
            map.push_back(static_cast<int>(dims.size()));
            dims.push_back(n.dims[d]);
          }
        }
        Add(n.type, dims, absl::StrCat("broadcast(", n.name, "), dimensions={", absl::StrJoin(map, ","), "}"));
        return;
      }
      case 7:
      case 8: {  // reduce
        if (rank == 0) return;
        std::vector<int> dims, out;
        for (int d = 0; d < rank; ++d) {
          if (Pick(2) == 0)
            dims.push_back(d);
          else
            out.push_back(n.dims[d]);
        }
        if (dims.empty()) return;
        std::string f, init;
        if (n.type == 'f') {
          bool max = Pick(2) == 0;
          f = max ? "max" : "add";
          init = Add('f', {}, max ? "constant(-inf)" : "constant(0)");
        } else if (n.type == 's') {
          f = "iadd";
          init = Add('s', {}, "constant(0)");
        } else {
          f = "or";
          init = Add('p', {}, "constant(false)");
        }
        std::string r = Add(n.type, out,
                            absl::StrCat("reduce(", n.name, ", ", init, "), dimensions={", absl::StrJoin(dims, ","),
                                         "}, to_apply=", f));
        if (n.type == 'f') {
          // Sums of sums stay comparable, and nobody takes the sine of a large sum, which magnifies its rounding.
          const size_t sum = nodes_.size() - 1;
          r = Add('f', out, absl::StrCat("tanh(", r, ")"));
          nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(sum));
        }
        if (Pick(2) == 0) {  // and back to the rows
          std::vector<int> map;
          for (int d = 0; d < rank; ++d) {
            if (std::find(dims.begin(), dims.end(), d) == dims.end()) map.push_back(d);
          }
          std::string b =
              Add(n.type, n.dims, absl::StrCat("broadcast(", r, "), dimensions={", absl::StrJoin(map, ","), "}"));
          if (n.type != 'p') Add(n.type, n.dims, absl::StrCat("subtract(", n.name, ", ", b, ")"));
        }
        return;
      }
      case 9: {  // reshape: join two neighbours or cut one
        if (rank == 0) return;
        std::vector<int> dims = n.dims;
        int d = Pick(rank);
        if (d + 1 < rank && Pick(2) == 0) {
          dims[d] *= dims[d + 1];
          dims.erase(dims.begin() + d + 1);
        } else {
          int f = dims[d] % 4 == 0 ? 4 : dims[d] % 3 == 0 ? 3 : 1;
          dims[d] /= f;
          dims.insert(dims.begin() + d + 1, f);
        }
        Add(n.type, dims, absl::StrCat("reshape(", n.name, ")"));
        return;
      }
      case 10: {  // transpose
        if (rank < 2) return;
        std::vector<int> p(rank), dims;
        for (int d = 0; d < rank; ++d) p[d] = d;
        std::shuffle(p.begin(), p.end(), random_);
        for (int d : p) dims.push_back(n.dims[d]);
        Add(n.type, dims, absl::StrCat("transpose(", n.name, "), dimensions={", absl::StrJoin(p, ","), "}"));
        return;
      }
      case 11: {  // slice
        if (rank == 0) return;
        std::vector<std::string> parts;
        std::vector<int> dims;
        for (int e : n.dims) {
          int lo = Pick(e), hi = lo + 1 + Pick(e - lo), step = 1 + Pick(3);
          parts.push_back(absl::StrCat("[", lo, ":", hi, ":", step, "]"));
          dims.push_back((hi - lo + step - 1) / step);
        }
        Add(n.type, dims, absl::StrCat("slice(", n.name, "), slice={", absl::StrJoin(parts, ","), "}"));
        return;
      }
      case 12: {  // pad
        if (rank == 0 || n.type == 'p' || Count(n.dims) > 20000) return;
        std::vector<std::string> parts;
        std::vector<int> dims;
        for (int e : n.dims) {
          int in = Pick(4) == 0 ? 1 : 0, whole = e + (e - 1) * in;
          int lo = Pick(5) - 2, hi = Pick(5) - 2;
          if (whole + lo + hi < 1) lo = hi = 0;
          parts.push_back(absl::StrCat(lo, "_", hi, "_", in));
          dims.push_back(whole + lo + hi);
        }
        std::string v = Like(n.type, {});
        Add(n.type, dims, absl::StrCat("pad(", n.name, ", ", v, "), padding=", absl::StrJoin(parts, "x")));
        return;
      }
      case 13: {  // concatenate
        if (rank == 0) return;
        int d = Pick(rank);
        std::string other = n.type == 'p' ? n.name : Like(n.type, n.dims);
        std::vector<int> dims = n.dims;
        dims[d] *= 2;
        Add(n.type, dims, absl::StrCat("concatenate(", n.name, ", ", other, "), dimensions={", d, "}"));
        return;
      }
      case 14: {  // reverse
        if (rank == 0) return;
        Add(n.type, n.dims, absl::StrCat("reverse(", n.name, "), dimensions={", Pick(rank), "}"));
        return;
      }
      case 15: {  // dynamic slice or update
        if (rank == 0) return;
        std::vector<std::string> starts;
        std::vector<int> dims;
        for (int e : n.dims) {
          starts.push_back(Like('s', {}));
          dims.push_back(1 + Pick(e));
        }
        std::string s = Add(n.type, dims,
                            absl::StrCat("dynamic-slice(", n.name, ", ", absl::StrJoin(starts, ", "),
                                         "), dynamic_slice_sizes={", absl::StrJoin(dims, ","), "}"));
        if (Pick(2) == 0) {
          std::string u = n.type == 'p' ? s : Add(n.type, dims, absl::StrCat("negate(", s, ")"));
          Add(n.type, n.dims,
              absl::StrCat("dynamic-update-slice(", n.name, ", ", u, ", ", absl::StrJoin(starts, ", "), ")"));
        }
        return;
      }
      case 16: {  // gather of rows
        if (rank == 0) return;
        std::string ids = Like('s', {6});
        std::vector<int> dims = {6}, offsets, sizes = {1};
        for (int d = 1; d < rank; ++d) {
          dims.push_back(n.dims[d]);
          offsets.push_back(d);
          sizes.push_back(n.dims[d]);
        }
        Add(n.type, dims,
            absl::StrCat("gather(", n.name, ", ", ids, "), offset_dims={", absl::StrJoin(offsets, ","),
                         "}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={",
                         absl::StrJoin(sizes, ","), "}"));
        return;
      }
      case 17:
        if (n.type == 's') Add('f', n.dims, absl::StrCat("convert(", n.name, ")"));
        if (n.type == 'p') Add('s', n.dims, absl::StrCat("convert(", n.name, ")"));
        return;
    }
  }

  std::mt19937 random_;
  std::vector<Node> nodes_;
  int made_ = 0;
  std::string body_;
};

TEST(Fuzz, RandomFusions) {
  int first = 1, count = 300;
  if (const char* seeds = std::getenv("KERNEL_FUZZ_SEEDS")) std::sscanf(seeds, "%d,%d", &first, &count);
  for (int seed = first; seed < first + count; ++seed) {
    std::string hlo = Fuzzer(static_cast<uint32_t>(seed)).Make();
    RunOptions o;
    o.seed = static_cast<uint32_t>(seed);
    o.tolerance = 1e-4;
    o.share = seed % 2 == 0;
    o.max_vector_bytes = seed % 7 == 0 ? 32 : 64;
    o.chunks = 1 + seed % 4;
    std::string difference = Difference(hlo, o);
    // Rounding that a floor or a comparison turns into a whole step is no difference of the kernel.
    EXPECT_EQ(difference, "") << "seed " << seed << "\n" << hlo;
    if (::testing::Test::HasFailure() && std::getenv("KERNEL_FUZZ_SEEDS") == nullptr) return;
  }
}

}  // namespace
}  // namespace backplane::engine::codegen
