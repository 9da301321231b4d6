#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/byte_reader.h"
#include "core/import/stablehlo/bytecode_entries.h"

namespace backplane::stablehlo {
namespace {

enum LocationCode {
  kFlatSymbol = 4,
  kCallSite = 10,
  kFileLine = 11,
  kFused = 12,
  kFusedMeta = 13,
  kNamed = 14,
  kUnknown = 15,
  kFileRange = 22
};

class BytecodeLocationResolver : public LocationResolver {
 public:
  explicit BytecodeLocationResolver(BytecodeContainer container) : container_(std::move(container)) {}

  SourceLocation Resolve(LocationId id) const override {
    SourceLocation out;
    int steps = kMaxLocationSteps;
    Walk(id - 1, 0, &steps, &out);
    return out;
  }

 private:
  std::string StringAttribute(uint64_t index) const {
    if (index >= container_.attributes.size()) return "";
    const BytecodeContainer::Entry& entry = container_.attributes[index];
    ByteReader in(entry.bytes, 0, "");
    if (entry.dialect != "builtin" || !entry.binary || in.Varint() != 2) return "";
    uint64_t s = in.Varint();
    return in.ok() && s < container_.strings.size() ? std::string(container_.strings[s]) : "";
  }

  // Fills what is still empty: the outermost name, then the first file position below it.
  void Walk(uint64_t index, int depth, int* steps, SourceLocation* out) const {
    if (depth > kMaxLocationWalk || (*steps)-- <= 0 || !out->file.empty() || index >= container_.attributes.size())
      return;
    const BytecodeContainer::Entry& entry = container_.attributes[index];
    if (entry.dialect != "builtin" || !entry.binary) return;
    ByteReader in(entry.bytes, 0, "");
    switch (in.Varint()) {
      case kCallSite: {
        uint64_t callee = in.Varint(), caller = in.Varint();
        if (!in.ok()) return;
        Walk(callee, depth + 1, steps, out);
        Walk(caller, depth + 1, steps, out);
        return;
      }
      case kFileLine: {
        uint64_t file = in.Varint(), line = in.Varint(), column = in.Varint();
        if (!in.ok()) return;
        out->file = StringAttribute(file);
        out->line = static_cast<int64_t>(line);
        out->column = static_cast<int64_t>(column);
        return;
      }
      case kFileRange: {
        uint64_t file = in.Varint(), n = in.Count("positions");
        if (!in.ok()) return;
        out->file = StringAttribute(file);
        if (n > 0) out->line = static_cast<int64_t>(in.Varint());
        if (n > 1) out->column = static_cast<int64_t>(in.Varint());
        return;
      }
      case kFused:
      case kFusedMeta: {
        uint64_t n = in.Count("locations");
        for (uint64_t i = 0; i < n && i < 8 && in.ok() && out->file.empty(); ++i)
          Walk(in.Varint(), depth + 1, steps, out);
        return;
      }
      case kNamed: {
        uint64_t name = in.Varint(), child = in.Varint();
        if (!in.ok()) return;
        if (out->name.empty()) out->name = StringAttribute(name);
        Walk(child, depth + 1, steps, out);
        return;
      }
      default:
        return;
    }
  }

  BytecodeContainer container_;
};

}  // namespace

std::unique_ptr<LocationResolver> MakeBytecodeLocationResolver(BytecodeContainer container) {
  return std::make_unique<BytecodeLocationResolver>(std::move(container));
}

}  // namespace backplane::stablehlo
