#include "tests/mutation/mutate.h"

#include <algorithm>
#include <cctype>

namespace backplane::mutation {
namespace {

constexpr size_t kMaxSize = size_t{1} << 20;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t Below(size_t limit) { return limit == 0 ? 0 : Next() % limit; }
  // Short runs are more frequent than long ones.
  size_t Length(size_t limit) { return std::min(limit, size_t{1} + Below(size_t{1} << Below(9))); }

 private:
  uint64_t state_;
};

constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1",
                                    "2",
                                    "7",
                                    "64",
                                    "255",
                                    "1000003",
                                    "2147483647",
                                    "2147483648",
                                    "-2147483649",
                                    "4294967296",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "18446744073709551615",
                                    "99999999999999999999",
                                    "1e999",
                                    "-0.0",
                                    "nan",
                                    "0x7fffffffffffffff"};
constexpr const char* kTypes[] = {"f32",      "f64",   "s8",    "i8",        "u64",          "pred",
                                  "i1",       "bf16",  "c64",   "s4",        "u2",           "f8e5m2",
                                  "f8E4M3FN", "token", "index", "tuple<i1>", "complex<f32>", "f4E2M1FN"};
constexpr const char* kBrackets[] = {"(", "[", "{", "<", "((", "tuple<", "{{", "stablehlo.case(", "(f32[],"};

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%' || c == '@';
}

struct Range {
  size_t begin = 0, size = 0;
};

// Returns a run of letters and digits, or another single character, at or behind a random position.
Range TokenOf(const std::string& s, Random& random) {
  if (s.empty()) return {};
  size_t at = random.Below(s.size());
  while (at < s.size() && std::isspace(static_cast<unsigned char>(s[at]))) ++at;
  if (at >= s.size()) return {};
  if (!IsWord(s[at])) return {at, 1};
  size_t begin = at, end = at;
  while (begin > 0 && IsWord(s[begin - 1])) --begin;
  while (end < s.size() && IsWord(s[end])) ++end;
  return {begin, end - begin};
}

// Returns the line at a random position, including its end.
Range LineOf(const std::string& s, Random& random) {
  if (s.empty()) return {};
  const size_t at = random.Below(s.size());
  const size_t before = at == 0 ? std::string::npos : s.rfind('\n', at - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const size_t after = s.find('\n', at);
  return {begin, (after == std::string::npos ? s.size() : after + 1) - begin};
}

Range RunOf(const std::string& s, Random& random) {
  if (s.empty()) return {};
  const size_t begin = random.Below(s.size());
  return {begin, random.Length(s.size() - begin)};
}

std::string Text(const std::string& s, Range r) { return s.substr(r.begin, r.size); }

void ChangeText(std::string* s, const std::string& other, Random& random) {
  switch (random.Below(12)) {
    case 0:
    case 1:
    case 2: {  // a number: searches for one a little further on
      for (int look = 0; look < 16; ++look) {
        const Range t = TokenOf(*s, random);
        if (t.size == 0 || !std::isdigit(static_cast<unsigned char>((*s)[t.begin]))) continue;
        s->replace(t.begin, t.size, kNumbers[random.Below(std::size(kNumbers))]);
        break;
      }
      break;
    }
    case 3: {  // replaces one token by another of the same kind
      const Range from = TokenOf(*s, random), to = TokenOf(*s, random);
      s->replace(to.begin, to.size, Text(*s, from));
      break;
    }
    case 4: {  // or of another kind
      const Range from = TokenOf(other, random), to = TokenOf(*s, random);
      s->replace(to.begin, to.size, Text(other, from));
      break;
    }
    case 5: {
      const Range t = TokenOf(*s, random);
      s->erase(t.begin, t.size);
      break;
    }
    case 6: {
      const Range t = TokenOf(*s, random);
      s->insert(t.begin, Text(*s, t));
      break;
    }
    case 7: {
      const Range t = TokenOf(*s, random);
      s->replace(t.begin, t.size, kTypes[random.Below(std::size(kTypes))]);
      break;
    }
    case 8: {
      const Range line = LineOf(*s, random);
      s->erase(line.begin, line.size);
      break;
    }
    case 9: {  // replaces a line by another one, or duplicates it
      const Range from = LineOf(*s, random), to = LineOf(*s, random);
      const std::string line = Text(*s, from);
      if (random.Below(2) == 0)
        s->insert(to.begin, line);
      else
        s->replace(to.begin, to.size, line);
      break;
    }
    case 10: {
      const Range from = LineOf(other, random), to = LineOf(*s, random);
      s->insert(to.begin, Text(other, from));
      break;
    }
    default: {  // nests deeply, rarely
      if (random.Below(8) != 0) break;
      const char* bracket = kBrackets[random.Below(std::size(kBrackets))];
      std::string deep;
      for (int i = 0; i < 10000; ++i) deep += bracket;
      s->insert(random.Below(s->size() + 1), deep);
      break;
    }
  }
}

void ChangeBytes(std::string* s, const std::string& other, Random& random) {
  constexpr unsigned char kBytes[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0xfe, 0x20, 0x0a};
  if (s->empty()) return;
  switch (random.Below(10)) {
    case 0:
    case 1:
      (*s)[random.Below(s->size())] ^= static_cast<char>(1 << random.Below(8));
      break;
    case 2:
      (*s)[random.Below(s->size())] = static_cast<char>(kBytes[random.Below(std::size(kBytes))]);
      break;
    case 3:
      (*s)[random.Below(s->size())] = static_cast<char>(random.Next());
      break;
    case 4: {
      const Range r = RunOf(*s, random);
      s->erase(r.begin, r.size);
      break;
    }
    case 5: {
      const Range r = RunOf(*s, random);
      s->insert(random.Below(s->size() + 1), Text(*s, r));
      break;
    }
    case 6: {
      const Range r = RunOf(other, random);
      const size_t at = random.Below(s->size());
      s->replace(at, std::min(r.size, s->size() - at), Text(other, r));
      break;
    }
    case 7: {  // a length, as fixed-width or variable-width bytes
      const size_t at = random.Below(s->size());
      std::string large;
      const size_t width = 1 + random.Below(10);
      for (size_t i = 0; i < width; ++i) large += static_cast<char>(0xff);
      if (random.Below(2) == 0) large.back() = 0x7f;
      s->replace(at, std::min(width, s->size() - at), large);
      break;
    }
    case 8: {
      for (size_t n = random.Length(16); n > 0; --n)
        s->insert(s->begin() + random.Below(s->size() + 1), static_cast<char>(random.Next()));
      break;
    }
    default:
      s->resize(random.Below(s->size() + 1));
  }
}

}  // namespace

std::string Mutate(const std::vector<std::string>& seeds, bool text, uint64_t seed) {
  Random random(seed);
  std::string s = seeds[random.Below(seeds.size())];
  const std::string& other = seeds[random.Below(seeds.size())];
  // Most inputs get a single change, because these reach deepest.
  for (size_t changes = random.Below(2) == 0 ? 1 : 1 + random.Below(8); changes > 0; --changes) {
    if (text && random.Below(8) != 0)
      ChangeText(&s, other, random);
    else
      ChangeBytes(&s, other, random);
    if (s.size() > kMaxSize) s.resize(kMaxSize);
  }
  return s;
}

}  // namespace backplane::mutation
