// The tables of a bytecode file: strings, attributes, types, operation names and properties. Each entry is stored once
// and referred to by its number. The numbers are known only at the end, when entries are sorted by dialect. Until then
// a Payload contains symbolic references.
#ifndef BACKPLANE_CORE_IMPORT_EXPORT_BYTECODE_TABLES_H_
#define BACKPLANE_CORE_IMPORT_EXPORT_BYTECODE_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace backplane::stablehlo {

// Appends an integer in MLIR's variable-length encoding.
void AppendVarint(uint64_t value, std::string* out);
inline uint64_t Zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

// A sequence of bytes and of references to entries.
class Payload {
 public:
  Payload& Byte(uint8_t b) { return Raw(absl::string_view(reinterpret_cast<const char*>(&b), 1)); }
  Payload& Varint(uint64_t v);
  Payload& Signed(int64_t v) { return Varint(Zigzag(v)); }
  Payload& VarintWithFlag(uint64_t v, bool flag) { return Varint(v << 1 | (flag ? 1 : 0)); }
  Payload& Raw(absl::string_view bytes);
  Payload& Attr(int id) { return Reference(Piece::kAttr, id); }
  Payload& PresentAttr(int id) { return Reference(Piece::kPresentAttr, id); }  // the optional form, with its flag set
  Payload& Type(int id) { return Reference(Piece::kType, id); }
  Payload& TypeFlagged(int id, bool flag) { return Reference(flag ? Piece::kTypeSet : Piece::kTypeClear, id); }
  Payload& OpName(int id) { return Reference(Piece::kOpName, id); }
  Payload& AddSection(uint8_t id, Payload inner);  // a nested section

  // Two payloads with equal keys have equal bytes.
  const std::string& key() const { return key_; }
  bool empty() const { return pieces_.empty(); }

 private:
  friend class Tables;
  struct Piece {
    enum Kind : uint8_t { kBytes, kAttr, kPresentAttr, kType, kTypeSet, kTypeClear, kOpName, kSection } kind;
    uint32_t begin = 0, end = 0;  // bytes in key_; or an id; or an index into sections_
    int id = 0;
  };
  Payload& Reference(Piece::Kind kind, int id);

  std::string key_;  // the bytes and the spelled-out references
  std::vector<Piece> pieces_;
  std::vector<Payload> sections_;
};

class Tables {
 public:
  enum Dialect : int { kBuiltin = 0, kVhlo = 1 };

  int String(absl::string_view text);
  int Attr(Dialect dialect, const Payload& payload);
  int Type(Dialect dialect, const Payload& payload);
  int OpName(Dialect dialect, absl::string_view name);
  int AddProperties(const Payload& payload);

  // Returns the complete file. `ir` is the content of the top section of operations.
  std::string Finish(int bytecode_version, absl::string_view producer, const Payload& ir);

 private:
  struct Entry {
    Dialect dialect;
    Payload payload;
  };
  struct Interned {
    std::vector<Entry> entries;
    absl::flat_hash_map<std::string, int> ids;
    std::vector<int> order;   // entries by dialect
    std::vector<int> number;  // id -> position in order
    int Add(Dialect dialect, const Payload& payload);
    void Sort();
  };
  std::string Encode(const Payload& payload) const;
  void AppendSection(uint8_t id, absl::string_view content, std::string* out) const;

  std::vector<std::string> strings_;
  absl::flat_hash_map<std::string, int> string_ids_;
  Interned attributes_, types_, op_names_;
  std::vector<Payload> properties_;
  absl::flat_hash_map<std::string, int> property_ids_;
};

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_EXPORT_BYTECODE_TABLES_H_
