// The messages between the tool and the process of a plugin. Both ends are this program, so numbers are sent as they
// are.
#ifndef BACKPLANE_SDK_CLI_FUZZ_WIRE_H_
#define BACKPLANE_SDK_CLI_FUZZ_WIRE_H_

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/cli/fuzz/generator.h"
#include "sdk/cli/session.h"

namespace backplane::cli::fuzz {

class Writer {
 public:
  void Number(int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof(n)); }
  void Bytes(absl::string_view s) {
    Number(static_cast<int64_t>(s.size()));
    bytes_.append(s.data(), s.size());
  }
  void Array(const Literal& l) {
    Number(static_cast<int64_t>(l.shape().element_type()));
    Number(l.shape().rank());
    for (const int64_t d : l.shape().dimensions()) Number(d);
    Bytes(absl::string_view(reinterpret_cast<const char*>(l.bytes()), static_cast<size_t>(l.byte_size())));
  }
  void Numbers(absl::Span<const int64_t> list) {
    Number(static_cast<int64_t>(list.size()));
    for (const int64_t n : list) Number(n);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  int64_t Number() {
    int64_t n = 0;
    if (bytes_.size() < sizeof(n)) return Fail();
    std::memcpy(&n, bytes_.data(), sizeof(n));
    bytes_.remove_prefix(sizeof(n));
    return n;
  }
  std::string Bytes() {
    const int64_t n = Number();
    if (!ok_ || n < 0 || static_cast<uint64_t>(n) > bytes_.size()) {
      Fail();
      return "";
    }
    std::string s(bytes_.substr(0, static_cast<size_t>(n)));
    bytes_.remove_prefix(static_cast<size_t>(n));
    return s;
  }
  Literal Array() {
    const auto type = static_cast<PrimitiveType>(Number());
    const int64_t rank = Number();
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < rank && ok_; ++d) dims.push_back(Number());
    const std::string data = Bytes();
    absl::StatusOr<Literal> l = Literal::FromBytes(
        Shape(type, dims), absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data.data()), data.size()));
    if (!ok_ || !l.ok()) {
      Fail();
      return Literal();
    }
    return *std::move(l);
  }

  std::vector<int64_t> Numbers() {
    std::vector<int64_t> list;
    const int64_t count = Number();
    for (int64_t k = 0; k < count && ok_; ++k) list.push_back(Number());
    return list;
  }

 private:
  int64_t Fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }
  absl::string_view bytes_;
  bool ok_ = true;
};

// Returns elements narrower than a byte in the core's form, extended to the byte. The bits that a plugin leaves above
// an element are not part of its value.
void ExtendNarrow(Literal& l);

// Send and receive complete messages; `deadline` is in seconds of the steady clock, negative: none.
bool WriteMessage(int fd, const std::string& message);
enum class Read { kDone, kEnded, kLate };
Read ReadMessage(int fd, std::string* message, double deadline = -1);

// How one argument is passed, on every device.
struct Handling {
  HostOrder host;
  std::vector<int64_t> device_order;  // minor to major, as the program requests; empty: no request
  bool donated = false;               // whether the argument is donated
};

std::vector<Handling> CollectHandling(const FuzzProgram& program);
std::vector<int64_t> RowMajorOrder(size_t rank);
std::vector<int64_t> GetMinorToMajor(const Shape& shape);  // the shape must have a layout

// A request to the process of a plugin. The host acts for the program that was generated, whatever changes were made to
// the code. `helpers` is the code of the program's helpers.
std::string FormatRequest(const FuzzProgram& program, absl::string_view format, absl::string_view code,
                          absl::Span<const std::string> helpers = {});

// The main loop of the process: answers requests until the other end closes.
[[noreturn]] void ServePlugin(int fd, const std::string& plugin, const PluginOptions& options);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_WIRE_H_
