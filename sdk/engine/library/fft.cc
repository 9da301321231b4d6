#include "sdk/engine/library/fft.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sdk/engine/library/fft_copy.h"
#include "sdk/engine/library/fft_pass.h"
#include "sdk/engine/library/fft_short.h"
#include "sdk/engine/library/parallel.h"

namespace backplane::engine {
namespace {

constexpr int64_t kMinSingleLineSize = 64;  // shorter contiguous lines are transformed several at a time
constexpr int64_t kMaxShortLineSize = 63;   // these are transformed by the definition
constexpr int64_t kMinParallelLineSize = 1 << 15;

// exp(-2 pi i k / n) for 0 <= k < n, each from an angle of at most pi / 4.
struct RootsOfUnity {
  std::vector<double> c, s;
  explicit RootsOfUnity(int64_t n) : c(static_cast<size_t>(n)), s(static_cast<size_t>(n)) {
    for (int64_t k = 0; k < n; ++k) {
      // 4 k / n = quadrant + rest / n, in whole numbers.
      const int64_t quadrant = 4 * k / n, rest = 4 * k - quadrant * n;
      const bool steep = 2 * rest > n;
      const double a = M_PI / 2 * static_cast<double>(steep ? n - rest : rest) / static_cast<double>(n);
      const double x = steep ? std::sin(a) : std::cos(a), y = steep ? std::cos(a) : std::sin(a);
      const double cosine[4] = {x, -y, -x, y}, sine[4] = {y, x, -y, -x};
      c[static_cast<size_t>(k)] = cosine[quadrant], s[static_cast<size_t>(k)] = -sine[quadrant];
    }
  }
};

std::vector<int> Radices(int64_t n) {
  std::vector<int> radices;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  std::vector<int> rest;
  if (twos % 3 == 1 && twos > 1)
    rest.insert(rest.end(), {4, 4}), twos -= 4;
  else if (twos % 3 == 2)
    rest.push_back(4), twos -= 2;
  else if (twos == 1)
    rest.push_back(2), twos = 0;
  radices.assign(static_cast<size_t>(twos / 3), 8);
  radices.insert(radices.end(), rest.begin(), rest.end());
  for (int r : {5, 3}) {
    for (; n % r == 0; n /= r) radices.push_back(r);
  }
  for (int r = 7; r <= kMaxRadix; r += 2) {
    for (; n % r == 0; n /= r) radices.push_back(r);
  }
  if (n > 1) radices.clear();  // has a large prime factor
  return radices;
}

// A complex transform of fixed length of `lanes` sequences side by side, in split arrays.
template <typename T>
class Line {
 public:
  Line(int64_t n, int64_t lanes) : n_(n), lanes_(lanes) {
    if (n == 1) return;
    std::vector<int> radices = Radices(n);
    if (radices.empty()) {
      PlanBluestein();
      return;
    }
    const RootsOfUnity unity(n);
    int64_t current = n, s = lanes;
    passes_.resize(radices.size());
    tables_.resize(radices.size());
    for (size_t i = 0; i < radices.size(); ++i) {
      FftPass<T>& pass = passes_[i];
      const int64_t r = radices[i];
      pass.radix = radices[i];
      pass.m = current / r;
      pass.s = s;
      Tables& t = tables_[i];
      if (pass.m > 1) {
        const int64_t repeat = s < kFftWidth<T> ? s : 1;
        for (int64_t k = 1; k < r; ++k) {
          for (int64_t p = 0; p < pass.m; ++p) {
            const size_t at = static_cast<size_t>(static_cast<__int128>(p) * k * (n / current) % n);
            for (int64_t q = 0; q < repeat; ++q)
              t.wr.push_back(static_cast<T>(unity.c[at])), t.wi.push_back(static_cast<T>(unity.s[at]));
          }
        }
        t.wr.resize(t.wr.size() + kFftPad), t.wi.resize(t.wi.size() + kFftPad);
      }
      for (int64_t j = 0; j < r; ++j) {
        t.root_r.push_back(static_cast<T>(unity.c[static_cast<size_t>(j * (n / r))]));
        t.root_i.push_back(static_cast<T>(unity.s[static_cast<size_t>(j * (n / r))]));
      }
      pass.wr = t.wr.data(), pass.wi = t.wi.data(), pass.root_r = t.root_r.data(), pass.root_i = t.root_i.data();
      current = pass.m;
      s *= r;
    }
  }

  // Numbers in one array of the scratch, the padding included; a multiple of a register.
  int64_t array_length() const { return (inner_ ? inner_->n_ : n_) * lanes_ + kFftPad; }
  static int64_t Arrays(bool bluestein) { return bluestein ? 6 : 4; }
  bool is_bluestein() const { return inner_ != nullptr; }
  double flops() const {
    if (inner_) return 2.2 * inner_->flops();
    return 5.0 * static_cast<double>(n_) * std::log2(static_cast<double>(n_) + 1);
  }

  struct Split {
    T *r, *i;
  };

  // Transforms a; the result is in what is returned, a or b. c only for Bluestein's way. The pool is for one long line.
  Split Run(Split a, Split b, Split c, ThreadPool* pool) const {
    if (inner_) return RunBluestein(a, b, c, pool);
    for (const FftPass<T>& pass : passes_) {
      const int64_t units = pass.units();
      const int64_t grain = std::max<int64_t>(1, units * 8192 / (n_ * lanes_ + 1));
      // A unit of a narrow pass is less than a register: cut at whole registers.
      const int64_t step = pass.s < kFftWidth<T> ? kFftWidth<T> : 1;
      ForRange(pool, (units + step - 1) / step, std::max<int64_t>(1, grain / step),
               [&](int64_t begin, int64_t end, int) {
                 RunFftPass(pass, a.r, a.i, b.r, b.i, begin * step, std::min(units, end * step));
               });
      std::swap(a, b);
    }
    return a;
  }

 private:
  struct Tables {
    std::vector<T> wr, wi, root_r, root_i;
  };

  // X[k] = conj(b[k]) sum_j (x[j] conj(b[j])) b[k - j] with b[j] = exp(i pi j^2 / n): a circular convolution of a
  // length that suits.
  void PlanBluestein() {
    int64_t best = 0;
    for (int64_t five : {1, 5, 25}) {
      for (int64_t three : {1, 3, 9}) {
        int64_t m = five * three;
        while (m < 2 * n_ - 1) m *= 2;
        if (best == 0 || m < best) best = m;
      }
    }
    inner_ = std::make_unique<Line>(best, lanes_);
    chirp_r_.resize(static_cast<size_t>(n_)), chirp_i_.resize(static_cast<size_t>(n_));
    const RootsOfUnity unity(2 * n_);
    const size_t m = static_cast<size_t>(best);
    std::vector<double> kernel_r(m), kernel_i(m);
    for (int64_t j = 0; j < n_; ++j) {
      const size_t at = static_cast<size_t>(static_cast<__int128>(j) * j % (2 * n_)), i = static_cast<size_t>(j);
      chirp_r_[i] = static_cast<T>(unity.c[at]), chirp_i_[i] = static_cast<T>(unity.s[at]);  // conj(b)
      kernel_r[i] = kernel_r[(m - i) % m] = unity.c[at];
      kernel_i[i] = kernel_i[(m - i) % m] = -unity.s[at];
    }
    // Its transform, in double precision, over the length that undoes the two transforms.
    const Line<double> exact(best, 1);
    std::vector<double> memory(4 * static_cast<size_t>(exact.array_length()));
    double* at[4];
    for (int k = 0; k < 4; ++k) at[k] = memory.data() + k * exact.array_length();
    std::copy(kernel_r.begin(), kernel_r.end(), at[0]);
    std::copy(kernel_i.begin(), kernel_i.end(), at[1]);
    const auto result = exact.Run({at[0], at[1]}, {at[2], at[3]}, {nullptr, nullptr}, nullptr);
    for (size_t k = 0; k < m; ++k) {
      kernel_r_.push_back(static_cast<T>(result.r[k] / static_cast<double>(best)));
      kernel_i_.push_back(static_cast<T>(result.i[k] / static_cast<double>(best)));
    }
  }

  // to[j] = from[j] * (wr[j], wi[j]) for each lane.
  void Scale(Split from, Split to, const std::vector<T>& wr, const std::vector<T>& wi) const {
    for (size_t j = 0; j < wr.size(); ++j) {
      const T c = wr[j], s = wi[j];
      const size_t at = j * static_cast<size_t>(lanes_);
      for (size_t l = at; l < at + static_cast<size_t>(lanes_); ++l) {
        const T r = from.r[l], i = from.i[l];
        to.r[l] = r * c - i * s, to.i[l] = r * s + i * c;
      }
    }
  }

  Split RunBluestein(Split a, Split b, Split c, ThreadPool* pool) const {
    Scale(a, b, chirp_r_, chirp_i_);
    const size_t used = static_cast<size_t>(n_ * lanes_), all = static_cast<size_t>(inner_->n_ * lanes_);
    std::fill(b.r + used, b.r + all, T(0)), std::fill(b.i + used, b.i + all, T(0));
    Split spectrum = inner_->Run(b, c, {nullptr, nullptr}, pool);
    Scale(spectrum, spectrum, kernel_r_, kernel_i_);
    // Backwards: with the parts exchanged.
    Split other = spectrum.r == b.r ? c : b;
    Split back = inner_->Run({spectrum.i, spectrum.r}, {other.i, other.r}, {nullptr, nullptr}, pool);
    Scale({back.i, back.r}, a, chirp_r_, chirp_i_);
    return a;
  }

  int64_t n_, lanes_;
  std::vector<FftPass<T>> passes_;
  std::vector<Tables> tables_;
  std::unique_ptr<Line> inner_;
  std::vector<T> chirp_r_, chirp_i_, kernel_r_, kernel_i_;

  template <typename U>
  friend class Line;
};

template <typename T>
struct Complex {
  T r, i;
};

// All lines along one axis of an array seen as [outer, length, inner].
template <typename T>
class Axis {
 public:
  using Split = typename Line<T>::Split;

  Axis(FftKind kind, int64_t n, int64_t outer, int64_t inner)
      : kind_(kind),
        n_(n),
        outer_(outer),
        inner_(inner),
        lanes_(inner == 1 && n >= kMinSingleLineSize ? 1 : kFftWidth<T>),
        short_(n > 1 && n <= kMaxShortLineSize ? ShortFft<T>::Create(n, IsReal()) : nullptr),
        halved_(IsReal() && n % 2 == 0 && short_ == nullptr),
        line_(halved_ ? n / 2 : n, lanes_) {
    if (!halved_) return;
    const RootsOfUnity unity(n);
    for (int64_t k = 0; k <= n / 2; ++k) {
      wr_.push_back(static_cast<T>(unity.c[static_cast<size_t>(k)]));
      wi_.push_back(static_cast<T>(unity.s[static_cast<size_t>(k)]));
    }
  }

  int64_t slot_bytes() const {
    return AlignTo64(Line<T>::Arrays(line_.is_bluestein()) * line_.array_length() * static_cast<int64_t>(sizeof(T)));
  }
  double microseconds() const {
    return static_cast<double>(outer_ * inner_) * (0.05 + line_.flops() / 3e4 * (sizeof(T) / 4.0));
  }

  // in may be out for complex transforms. `scale` multiplies the result.
  void Run(const void* in, void* out, T scale, std::byte* workspace, ThreadPool* pool) const {
    const int64_t lines = outer_ * inner_, groups = (lines + lanes_ - 1) / lanes_;
    const bool one_by_one = groups < 2 * PoolThreads(pool) && lanes_ == 1 && n_ >= kMinParallelLineSize;
    auto run = [&](int64_t begin, int64_t end, int slot, ThreadPool* line_pool) {
      T* memory = reinterpret_cast<T*>(workspace + slot * slot_bytes());
      const int64_t length = line_.array_length();
      auto split = [&](int k) { return Split{memory + 2 * k * length, memory + (2 * k + 1) * length}; };
      const Split a = split(0), b = split(1), c = line_.is_bluestein() ? split(2) : Split{nullptr, nullptr};
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * lanes_, count = std::min(lanes_, lines - first);
        if (short_ != nullptr) {
          RunShort(in, out, first, count, scale, a, b);
          continue;
        }
        Load(in, first, count, a);
        const bool backward = kind_ == FftKind::kInverse || kind_ == FftKind::kRealInverse;
        if (backward) {
          const Split r = line_.Run({a.i, a.r}, {b.i, b.r}, {c.i, c.r}, line_pool);
          StoreResult({r.i, r.r}, out, first, count, scale);
        } else {
          StoreResult(line_.Run(a, b, c, line_pool), out, first, count, scale);
        }
      }
    };
    if (one_by_one) return run(0, groups, 0, pool);
    const int64_t grain = std::max<int64_t>(1, 4096 / (n_ * lanes_));
    ForRange(pool, groups, grain, [&](int64_t begin, int64_t end, int slot) { run(begin, end, slot, nullptr); });
  }

 private:
  bool IsReal() const { return kind_ == FftKind::kRealForward || kind_ == FftKind::kRealInverse; }
  int64_t bins() const { return n_ / 2 + 1; }

  // Where a line starts in an array whose axis has `length` elements.
  int64_t Start(int64_t line, int64_t length) const { return line / inner_ * length * inner_ + line % inner_; }
  // Are these lines neighbours at every step?
  bool SideBySide(int64_t first, int64_t count) const { return inner_ > 1 && first % inner_ + count <= inner_; }

  // A line of its own, or `count` lines side by side.
  FftBlock Block(int64_t count) const {
    if (lanes_ == 1) return {.rows = 1, .count = n_};
    return {.rows = n_, .count = count, .interleaved_stride = inner_, .split_stride = lanes_};
  }

  void Load(const void* in, int64_t first, int64_t count, Split a) const {
    if (kind_ == FftKind::kRealForward) return LoadReal(static_cast<const T*>(in), first, count, a);
    if (kind_ == FftKind::kRealInverse) return LoadBins(static_cast<const Complex<T>*>(in), first, count, a);
    const Complex<T>* x = static_cast<const Complex<T>*>(in);
    if (lanes_ == 1 || SideBySide(first, count)) {
      SplitComplex(&x[Start(first, n_)].r, a.r, a.i, Block(count));
    } else {
      for (int64_t l = 0; l < count; ++l) {
        const Complex<T>* from = x + Start(first + l, n_);
        for (int64_t j = 0; j < n_; ++j)
          a.r[j * lanes_ + l] = from[j * inner_].r, a.i[j * lanes_ + l] = from[j * inner_].i;
      }
    }
    ClearUnused(n_, count, a);
  }

  // Lanes without a line compute too: keep them finite and quick.
  void ClearUnused(int64_t n, int64_t count, Split a) const {
    for (int64_t j = 0; count < lanes_ && j < n; ++j) {
      for (int64_t l = count; l < lanes_; ++l) a.r[j * lanes_ + l] = a.i[j * lanes_ + l] = 0;
    }
  }

  // The arrays of a, and those of b, lie one behind the other: together they hold a line's real and imaginary rows.
  void RunShort(const void* in, void* out, int64_t first, int64_t count, T scale, Split a, Split b) const {
    if (kind_ == FftKind::kRealForward) {
      LoadReal(static_cast<const T*>(in), first, count, a);
      short_->Run(a.r, b.r, true);
      Complex<T>* y = static_cast<Complex<T>*>(out) + first * bins();
      for (int64_t l = 0; l < count; ++l, y += bins()) {
        for (int64_t k = 0; k < bins(); ++k) {
          const bool real = k == 0 || 2 * k == n_;
          y[k].r = a.r[(k == 0 ? 0 : 2 * k - 1) * lanes_ + l] * scale;
          y[k].i = real ? T(0) : a.r[2 * k * lanes_ + l] * scale;
        }
      }
      return;
    }
    if (kind_ == FftKind::kRealInverse) {
      const Complex<T>* x = static_cast<const Complex<T>*>(in) + first * bins();
      for (int64_t l = 0; l < count; ++l, x += bins()) {
        for (int64_t k = 0; k < bins(); ++k) {
          a.r[(k == 0 ? 0 : 2 * k - 1) * lanes_ + l] = x[k].r;
          if (k > 0 && 2 * k != n_) a.r[2 * k * lanes_ + l] = x[k].i;
        }
      }
      for (int64_t j = 0; count < lanes_ && j < n_; ++j) {
        for (int64_t l = count; l < lanes_; ++l) a.r[j * lanes_ + l] = 0;
      }
      short_->Run(a.r, b.r, false);
      StoreReal(a, static_cast<T*>(out), first, count, scale);
      return;
    }
    Load(in, first, count, a);
    for (int64_t j = 0; j < n_; ++j) {
      std::copy(a.r + j * lanes_, a.r + (j + 1) * lanes_, b.r + 2 * j * lanes_);
      std::copy(a.i + j * lanes_, a.i + (j + 1) * lanes_, b.r + (2 * j + 1) * lanes_);
    }
    short_->Run(b.r, a.r, kind_ == FftKind::kForward);
    for (int64_t j = 0; j < n_; ++j) {
      std::copy(b.r + 2 * j * lanes_, b.r + (2 * j + 1) * lanes_, a.r + j * lanes_);
      std::copy(b.r + (2 * j + 1) * lanes_, b.r + (2 * j + 2) * lanes_, a.i + j * lanes_);
    }
    StoreResult(a, out, first, count, scale);
  }

  // The real axis is the innermost one: inner_ is 1. Even lengths: two numbers make one complex one.
  void LoadReal(const T* x, int64_t first, int64_t count, Split a) const {
    const int64_t points = halved_ ? n_ / 2 : n_;
    for (int64_t l = 0; l < count; ++l) {
      const T* from = x + (first + l) * n_;
      if (halved_ && lanes_ == 1) {
        SplitComplex(from, a.r, a.i, {.rows = 1, .count = points});
      } else {
        for (int64_t j = 0; j < points; ++j) {
          a.r[j * lanes_ + l] = halved_ ? from[2 * j] : from[j];
          a.i[j * lanes_ + l] = halved_ ? from[2 * j + 1] : T(0);
        }
      }
    }
    ClearUnused(points, count, a);
  }

  void LoadBins(const Complex<T>* x, int64_t first, int64_t count, Split a) const {
    const int64_t half = n_ / 2, points = halved_ ? half : n_;
    for (int64_t l = 0; l < count; ++l) {
      const Complex<T>* from = x + (first + l) * bins();
      // What a real sequence cannot have is not looked at: imaginary parts at zero and at half the sampling rate.
      auto bin = [&](int64_t k) { return Complex<T>{from[k].r, k == 0 || (halved_ && k == half) ? T(0) : from[k].i}; };
      for (int64_t k = 0; k < points; ++k) {
        Complex<T> z;
        if (halved_) {  // even part + i * odd part
          const Complex<T> u = bin(k), v = bin(half - k);
          const T er = u.r + v.r, ei = u.i - v.i, dr = u.r - v.r, di = u.i + v.i;
          const T c = wr_[static_cast<size_t>(k)], s = -wi_[static_cast<size_t>(k)];
          const T odd_r = dr * c - di * s, odd_i = dr * s + di * c;
          z = {er - odd_i, ei + odd_r};
        } else {
          z = k <= half ? bin(k) : Complex<T>{from[n_ - k].r, -from[n_ - k].i};
        }
        a.r[k * lanes_ + l] = z.r, a.i[k * lanes_ + l] = z.i;
      }
    }
    ClearUnused(points, count, a);
  }

  void StoreResult(Split a, void* out, int64_t first, int64_t count, T scale) const {
    if (kind_ == FftKind::kRealForward) return StoreBins(a, static_cast<Complex<T>*>(out), first, count, scale);
    if (kind_ == FftKind::kRealInverse) return StoreReal(a, static_cast<T*>(out), first, count, scale);
    Complex<T>* y = static_cast<Complex<T>*>(out);
    if (lanes_ == 1 || SideBySide(first, count)) {
      InterleaveComplex(a.r, a.i, &y[Start(first, n_)].r, Block(count), scale);
    } else {
      for (int64_t l = 0; l < count; ++l) {
        Complex<T>* to = y + Start(first + l, n_);
        for (int64_t j = 0; j < n_; ++j) to[j * inner_] = {a.r[j * lanes_ + l] * scale, a.i[j * lanes_ + l] * scale};
      }
    }
  }

  void StoreBins(Split a, Complex<T>* y, int64_t first, int64_t count, T scale) const {
    const int64_t half = n_ / 2;
    for (int64_t l = 0; l < count; ++l) {
      Complex<T>* to = y + (first + l) * bins();
      if (halved_ && lanes_ == 1) {
        StoreRealBins(a.r, a.i, wr_.data(), wi_.data(), half, &to[0].r, scale * T(0.5));
        continue;
      }
      auto point = [&](int64_t k) { return Complex<T>{a.r[k * lanes_ + l], a.i[k * lanes_ + l]}; };
      if (!halved_) {
        for (int64_t k = 0; k <= half; ++k) to[k] = {point(k).r * scale, point(k).i * scale};
        continue;
      }
      const T by = scale * T(0.5);
      for (int64_t k = 0; k <= half; ++k) {
        const Complex<T> u = point(k == half ? 0 : k), v = point(k == 0 ? 0 : half - k);
        const T er = u.r + v.r, ei = u.i - v.i, dr = u.r - v.r, di = u.i + v.i;
        const T c = wr_[static_cast<size_t>(k)], s = wi_[static_cast<size_t>(k)];
        // even part - i w (odd part)
        to[k] = {(er + dr * s + di * c) * by, (ei - dr * c + di * s) * by};
      }
    }
  }

  void StoreReal(Split a, T* y, int64_t first, int64_t count, T scale) const {
    const int64_t points = halved_ ? n_ / 2 : n_;
    for (int64_t l = 0; l < count; ++l) {
      T* to = y + (first + l) * n_;
      if (halved_ && lanes_ == 1) {
        InterleaveComplex(a.r, a.i, to, {.rows = 1, .count = points}, scale);
        continue;
      }
      for (int64_t j = 0; j < points; ++j) {
        if (halved_)
          to[2 * j] = a.r[j * lanes_ + l] * scale, to[2 * j + 1] = a.i[j * lanes_ + l] * scale;
        else
          to[j] = a.r[j * lanes_ + l] * scale;
      }
    }
  }

  FftKind kind_;
  int64_t n_, outer_, inner_, lanes_;
  std::unique_ptr<ShortFft<T>> short_;
  bool halved_;
  Line<T> line_;
  std::vector<T> wr_, wi_;
};

template <typename T>
class Plan : public FftPlan {
 public:
  explicit Plan(const FftProblem& p) : kind_(p.kind) {
    const bool real = kind_ == FftKind::kRealForward || kind_ == FftKind::kRealInverse;
    const bool backward = kind_ == FftKind::kInverse || kind_ == FftKind::kRealInverse;
    int64_t before = p.batch, points = 1;
    for (int64_t n : p.lengths) before *= n, points *= n;
    if (backward) scale_ = static_cast<T>(1 / static_cast<double>(points));
    const int64_t last = p.lengths.back(), width = real ? last / 2 + 1 : last;
    before /= last;
    complex_ = before * width;
    int64_t inner = width, outer = before;
    std::vector<std::unique_ptr<Axis<T>>> others;
    for (size_t d = p.lengths.size() - 1; d-- > 0;) {
      outer /= p.lengths[d];
      others.push_back(
          std::make_unique<Axis<T>>(backward ? FftKind::kInverse : FftKind::kForward, p.lengths[d], outer, inner));
      inner *= p.lengths[d];
    }
    auto innermost = std::make_unique<Axis<T>>(kind_, last, before, 1);
    if (kind_ == FftKind::kRealInverse) {
      std::reverse(others.begin(), others.end());
      axes_ = std::move(others);
      axes_.push_back(std::move(innermost));
    } else {
      axes_.push_back(std::move(innermost));
      for (auto& a : others) axes_.push_back(std::move(a));
    }
  }

  int64_t workspace_bytes(int num_threads) const override { return between_bytes() + num_threads * slot_bytes(); }

  void Run(const void* input, void* output, std::byte* workspace, ThreadPool* pool) const override {
    std::byte* scratch = workspace + between_bytes();
    void* between = between_bytes() > 0 ? static_cast<void*>(workspace) : output;
    const void* from = input;
    for (size_t k = 0; k < axes_.size(); ++k) {
      const bool last = k + 1 == axes_.size();
      void* to = last ? output : between;
      axes_[k]->Run(from, to, last ? scale_ : T(1), scratch, pool);
      from = to;
    }
  }

  double estimated_us() const override {
    double us = 0.1;
    for (const auto& a : axes_) us += a->microseconds();
    return us;
  }

 private:
  int64_t between_bytes() const {
    return kind_ == FftKind::kRealInverse && axes_.size() > 1
               ? AlignTo64(complex_ * static_cast<int64_t>(sizeof(Complex<T>)))
               : 0;
  }
  int64_t slot_bytes() const {
    int64_t most = 0;
    for (const auto& a : axes_) most = std::max(most, a->slot_bytes());
    return most;
  }

  FftKind kind_;
  T scale_ = 1;
  int64_t complex_ = 0;
  std::vector<std::unique_ptr<Axis<T>>> axes_;
};

}  // namespace

std::unique_ptr<FftPlan> FftPlan::Create(const FftProblem& problem) {
  if (problem.is_double) return std::make_unique<Plan<double>>(problem);
  return std::make_unique<Plan<float>>(problem);
}

}  // namespace backplane::engine
