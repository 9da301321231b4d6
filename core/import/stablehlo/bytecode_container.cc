#include "core/import/stablehlo/bytecode_container.h"

#include <array>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/import/stablehlo/byte_reader.h"

namespace backplane::stablehlo {
namespace {

enum Section {
  kStrings,
  kDialects,
  kEntries,
  kOffsets,
  kIr,
  kResources,
  kResourceOffsets,
  kDialectVersions,
  kProperties
};
constexpr int kSectionCount = 9;
constexpr const char* kSectionNames[kSectionCount] = {"section 0 (strings)",
                                                      "section 1 (dialects)",
                                                      "section 2 (attributes and types)",
                                                      "section 3 (offsets)",
                                                      "section 4 (ir)",
                                                      "section 5 (resources)",
                                                      "section 6 (resource offsets)",
                                                      "section 7 (dialect versions)",
                                                      "section 8 (properties)"};
constexpr uint64_t kNewestLayout = 6;
constexpr absl::string_view kMagic("ML\xEFR", 4);
constexpr absl::string_view kProducerPrefix = "StableHLO_v";

using Blob = BytecodeContainer::Blob;
using Sections = std::array<std::optional<Blob>, kSectionCount>;

// Reads one section's head and returns its data. The file position matters for alignment.
absl::Status ReadSection(ByteReader& in, int* id, Blob* data) {
  uint8_t head = in.Byte();
  *id = head & 0x7f;
  uint64_t length = in.Varint();
  if (!in.ok()) return in.status();
  if (*id >= kSectionCount) return in.Fail(absl::StrCat("unknown section id ", *id));
  if (head & 0x80) {
    uint64_t alignment = in.Varint();
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      return in.Fail(absl::StrCat(kSectionNames[*id], ": alignment ", alignment, " is not a power of two"));
    }
    while (in.ok() && (in.Position() & (alignment - 1)) != 0) {
      if (in.Byte() != 0xCB && in.ok()) return in.Fail(absl::StrCat(kSectionNames[*id], ": padding byte is not 0xCB"));
    }
  }
  if (length > in.Left()) {
    return in.Fail(absl::StrCat(kSectionNames[*id], ": length ", length, ", ", in.Left(), " bytes left"));
  }
  data->origin = in.Position();
  data->bytes = in.Bytes(length);
  return in.status();
}

absl::Status ReadVersion(absl::string_view producer, int version[3]) {
  if (!absl::StartsWith(producer, kProducerPrefix)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "portable artifact: producer is \"", absl::CHexEscape(producer), "\", expected \"", kProducerPrefix,
        "X.Y.Z\": this is plain MLIR bytecode, whose form is not stable; serialize the module as a portable artifact"));
  }
  std::vector<absl::string_view> parts = absl::StrSplit(producer.substr(kProducerPrefix.size()), '.');
  bool good = parts.size() == 3;
  for (int i = 0; good && i < 3; ++i) good = absl::SimpleAtoi(parts[i], &version[i]) && version[i] >= 0;
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat("portable artifact: producer \"", absl::CHexEscape(producer), "\" holds no version X.Y.Z"));
  }
  return absl::OkStatus();
}

absl::Status ReadStrings(const Blob& data, std::vector<absl::string_view>* strings) {
  ByteReader in(data.bytes, data.origin, kSectionNames[kStrings]);
  uint64_t n = in.Count("strings");
  // Sizes come last string first; the strings themselves in forward order.
  std::vector<uint64_t> sizes(n);
  uint64_t total = 0;
  for (uint64_t i = n; i > 0 && in.ok(); --i) {
    uint64_t size = in.Varint();
    if (in.ok() && (size == 0 || size > data.bytes.size())) return in.Fail(absl::StrCat("string size ", size));
    sizes[i - 1] = size;
    total += size;
    if (total > data.bytes.size()) return in.Fail("string sizes exceed the section");
  }
  if (!in.ok()) return in.status();
  if (total != in.Left()) return in.Fail(absl::StrCat("string sizes sum to ", total, ", section holds ", in.Left()));
  strings->reserve(n);
  for (uint64_t size : sizes) {
    absl::string_view s = in.Bytes(size);
    if (!in.ok()) return in.status();
    if (s.back() != '\0') return in.Fail("string is not NUL-terminated");
    strings->push_back(s.substr(0, size - 1));
  }
  return in.status();
}

absl::string_view StringAt(ByteReader& in, const std::vector<absl::string_view>& strings, uint64_t index) {
  if (in.ok() && index >= strings.size()) {
    in.Fail(absl::StrCat("string ", index, " of ", strings.size()));
  }
  return in.ok() ? strings[index] : absl::string_view();
}

absl::Status ReadDialects(const Blob& data, BytecodeContainer* out, std::vector<absl::string_view>* dialects) {
  ByteReader in(data.bytes, data.origin, kSectionNames[kDialects]);
  uint64_t n = in.Count("dialects");
  dialects->reserve(n);
  for (uint64_t i = 0; i < n && in.ok(); ++i) {
    bool versioned = false;
    uint64_t name = out->layout_version >= 1 ? in.VarintFlag(&versioned) : in.Varint();
    dialects->push_back(StringAt(in, out->strings, name));
    if (versioned && in.ok()) {
      int id = 0;
      Blob ignored;  // private to the dialect; none of those we read uses it
      if (absl::Status s = ReadSection(in, &id, &ignored); !s.ok()) return s;
      if (id != kDialectVersions)
        return in.Fail(absl::StrCat("section ", id, " where a dialect version was announced"));
    }
  }
  uint64_t announced = out->layout_version >= 4 ? in.Count("op names") : 0;
  while (in.ok() && !in.AtEnd()) {
    uint64_t dialect = in.Varint();
    if (in.ok() && dialect >= dialects->size())
      return in.Fail(absl::StrCat("dialect ", dialect, " of ", dialects->size()));
    uint64_t count = in.Count("op names");
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      BytecodeContainer::OpName op;
      uint64_t name = out->layout_version >= 5 ? in.VarintFlag(&op.registered) : in.Varint();
      op.name = StringAt(in, out->strings, name);
      if (!in.ok()) break;
      op.dialect = (*dialects)[dialect];
      out->op_names.push_back(op);
    }
  }
  if (in.ok() && out->layout_version >= 4 && announced != out->op_names.size()) {
    return in.Fail(absl::StrCat(announced, " op names announced, ", out->op_names.size(), " listed"));
  }
  return in.status();
}

absl::Status ReadOffsets(const Blob& offsets, const Blob& entries, const std::vector<absl::string_view>& dialects,
                         BytecodeContainer* out) {
  ByteReader in(offsets.bytes, offsets.origin, kSectionNames[kOffsets]);
  uint64_t attribute_count = in.Count("attributes");
  uint64_t type_count = in.Count("types");
  uint64_t at = 0;
  auto read = [&](uint64_t total, std::vector<BytecodeContainer::Entry>* list) {
    list->reserve(total);
    while (in.ok() && list->size() < total) {
      uint64_t dialect = in.Varint();
      if (in.ok() && dialect >= dialects.size()) {
        in.Fail(absl::StrCat("dialect ", dialect, " of ", dialects.size()));
        return;
      }
      uint64_t count = in.Count("entries");
      if (in.ok() && count > total - list->size()) {
        in.Fail(absl::StrCat("group of ", count, " entries, ", total - list->size(), " expected at most"));
        return;
      }
      for (uint64_t i = 0; i < count && in.ok(); ++i) {
        BytecodeContainer::Entry entry;
        uint64_t size = in.VarintFlag(&entry.binary);
        if (in.ok() && size > entries.bytes.size() - at) {
          in.Fail(absl::StrCat("entry of ", size, " bytes, ", entries.bytes.size() - at, " left in ",
                               kSectionNames[kEntries]));
        }
        if (!in.ok()) return;
        entry.dialect = dialects[dialect];
        entry.bytes = entries.bytes.substr(at, size);
        entry.origin = entries.origin + at;
        at += size;
        list->push_back(entry);
      }
    }
  };
  read(attribute_count, &out->attributes);
  read(type_count, &out->types);
  if (in.ok() && !in.AtEnd()) return in.Fail(absl::StrCat(in.Left(), " bytes left over"));
  return in.status();
}

absl::Status ReadProperties(const Blob& data, std::vector<Blob>* properties) {
  ByteReader in(data.bytes, data.origin, kSectionNames[kProperties]);
  uint64_t n = in.Count("properties");
  properties->reserve(n);
  for (uint64_t i = 0; i < n && in.ok(); ++i) {
    uint64_t size = in.Varint();
    Blob blob;
    blob.origin = in.Position();
    blob.bytes = in.Bytes(size);
    properties->push_back(blob);
  }
  if (in.ok() && !in.AtEnd()) return in.Fail(absl::StrCat(in.Left(), " bytes left over"));
  return in.status();
}

// Resources would hold external constants. VHLO has no attribute that refers to one, so they are checked and dropped.
absl::Status CheckResources(const Blob& offsets, const Blob& data, size_t string_count, size_t dialect_count) {
  ByteReader in(offsets.bytes, offsets.origin, kSectionNames[kResourceOffsets]);
  uint64_t at = 0;
  auto group = [&]() {
    uint64_t count = in.Count("resources");
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      uint64_t key = in.Varint(), size = in.Varint();
      uint8_t kind = in.Byte();
      if (!in.ok()) return;
      if (key >= string_count) in.Fail(absl::StrCat("string ", key, " of ", string_count));
      if (kind > 2) in.Fail(absl::StrCat("resource kind ", kind));
      if (size > data.bytes.size() - at) in.Fail(absl::StrCat("resource of ", size, " bytes exceeds its section"));
      at += in.ok() ? size : 0;
    }
  };
  uint64_t external = in.Count("resource groups");
  for (uint64_t i = 0; i < external && in.ok(); ++i) {
    uint64_t key = in.Varint();
    if (in.ok() && key >= string_count) in.Fail(absl::StrCat("string ", key, " of ", string_count));
    group();
  }
  while (in.ok() && !in.AtEnd()) {
    uint64_t dialect = in.Varint();
    if (in.ok() && dialect >= dialect_count) in.Fail(absl::StrCat("dialect ", dialect, " of ", dialect_count));
    group();
  }
  return in.status();
}

}  // namespace

bool LooksLikeBytecode(absl::string_view bytes) { return absl::StartsWith(bytes, kMagic); }

absl::StatusOr<BytecodeContainer> ReadBytecodeContainer(absl::string_view bytes) {
  if (!LooksLikeBytecode(bytes)) {
    return absl::InvalidArgumentError("portable artifact: does not start with the bytecode magic 4D 4C EF 52");
  }
  ByteReader in(bytes, 0, "file");
  in.Bytes(kMagic.size());
  BytecodeContainer out;
  out.layout_version = in.Varint();
  if (!in.ok()) return in.status();
  if (out.layout_version > kNewestLayout) {
    return in.Fail(absl::StrCat("bytecode layout version ", out.layout_version, ", newest known is ", kNewestLayout));
  }
  size_t producer_end = bytes.find('\0', in.Position());
  if (producer_end == absl::string_view::npos) return in.Fail("producer string has no end");
  out.producer = in.Bytes(producer_end - in.Position());
  in.Byte();
  if (absl::Status s = ReadVersion(out.producer, out.version); !s.ok()) return s;

  Sections sections;
  while (!in.AtEnd()) {
    int id = 0;
    Blob data;
    if (absl::Status s = ReadSection(in, &id, &data); !s.ok()) return s;
    if (sections[id]) return in.Fail(absl::StrCat(kSectionNames[id], " stands twice"));
    sections[id] = data;
  }
  for (int id : {kStrings, kDialects, kEntries, kOffsets, kIr}) {
    if (!sections[id]) return in.Fail(absl::StrCat(kSectionNames[id], " is missing"));
  }
  if (out.layout_version >= 5 && !sections[kProperties]) {
    return in.Fail(absl::StrCat(kSectionNames[kProperties], " is missing"));
  }
  if (sections[kResources].has_value() != sections[kResourceOffsets].has_value()) {
    return in.Fail("resources and resource offsets come together or not at all");
  }
  std::vector<absl::string_view> dialects;
  if (absl::Status s = ReadStrings(*sections[kStrings], &out.strings); !s.ok()) return s;
  if (absl::Status s = ReadDialects(*sections[kDialects], &out, &dialects); !s.ok()) return s;
  if (absl::Status s = ReadOffsets(*sections[kOffsets], *sections[kEntries], dialects, &out); !s.ok()) return s;
  if (sections[kProperties] && out.layout_version >= 5) {
    if (absl::Status s = ReadProperties(*sections[kProperties], &out.properties); !s.ok()) return s;
  }
  if (sections[kResources]) {
    absl::Status s =
        CheckResources(*sections[kResourceOffsets], *sections[kResources], out.strings.size(), dialects.size());
    if (!s.ok()) return s;
  }
  out.ir = *sections[kIr];
  return out;
}

}  // namespace backplane::stablehlo
