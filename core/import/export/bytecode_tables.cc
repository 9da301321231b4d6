#include "core/import/export/bytecode_tables.h"

#include <algorithm>
#include <numeric>

namespace backplane::stablehlo {

void AppendVarint(uint64_t value, std::string* out) {
  // n bytes hold 7n bits behind n-1 zero bits and a one.
  for (int n = 1; n <= 8; ++n) {
    if (n < 8 ? value >> (7 * n) != 0 : value >> 56 != 0) continue;
    uint64_t coded = (value << n) | (uint64_t{1} << (n - 1));
    for (int b = 0; b < n; ++b) out->push_back(static_cast<char>(coded >> (8 * b)));
    return;
  }
  out->push_back(0);
  for (int b = 0; b < 8; ++b) out->push_back(static_cast<char>(value >> (8 * b)));
}

Payload& Payload::Raw(absl::string_view bytes) {
  if (pieces_.empty() || pieces_.back().kind != Piece::kBytes) {
    key_ += 'b';
    pieces_.push_back({Piece::kBytes, static_cast<uint32_t>(key_.size()), static_cast<uint32_t>(key_.size()), 0});
  }
  key_.append(bytes.data(), bytes.size());
  pieces_.back().end = static_cast<uint32_t>(key_.size());
  return *this;
}

Payload& Payload::Varint(uint64_t v) {
  std::string bytes;
  AppendVarint(v, &bytes);
  return Raw(bytes);
}

// The length of the run of bytes before it makes the spelling of references unambiguous.
Payload& Payload::Reference(Piece::Kind kind, int id) {
  const uint32_t run = pieces_.empty() ? 0 : pieces_.back().end - pieces_.back().begin;
  key_ += 'r';
  AppendVarint(run, &key_);
  AppendVarint(kind, &key_);
  AppendVarint(static_cast<uint64_t>(id), &key_);
  pieces_.push_back({kind, 0, 0, id});
  return *this;
}

Payload& Payload::AddSection(uint8_t id, Payload inner) {
  Byte(id);
  sections_.push_back(std::move(inner));
  return Reference(Piece::kSection, static_cast<int>(sections_.size()) - 1);
}

int Tables::Interned::Add(Dialect dialect, const Payload& payload) {
  std::string key = payload.key();
  key += static_cast<char>('0' + dialect);
  auto [it, fresh] = ids.emplace(std::move(key), static_cast<int>(entries.size()));
  if (fresh) entries.push_back({dialect, payload});
  return it->second;
}

void Tables::Interned::Sort() {
  order.resize(entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return entries[a].dialect < entries[b].dialect; });
  number.resize(entries.size());
  for (size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<int>(i);
}

int Tables::String(absl::string_view text) {
  auto [it, fresh] = string_ids_.emplace(std::string(text), static_cast<int>(strings_.size()));
  if (fresh) strings_.emplace_back(text);
  return it->second;
}

int Tables::Attr(Dialect dialect, const Payload& payload) { return attributes_.Add(dialect, payload); }
int Tables::Type(Dialect dialect, const Payload& payload) { return types_.Add(dialect, payload); }
int Tables::OpName(Dialect dialect, absl::string_view name) {
  String(name);
  return op_names_.Add(dialect, Payload().Raw(name));
}
int Tables::AddProperties(const Payload& payload) {
  auto [it, fresh] = property_ids_.emplace(payload.key(), static_cast<int>(properties_.size()));
  if (fresh) properties_.push_back(payload);
  return it->second;
}

std::string Tables::Encode(const Payload& payload) const {
  std::string out;
  for (const Payload::Piece& p : payload.pieces_) {
    const uint64_t id = static_cast<uint64_t>(p.id);
    switch (p.kind) {
      case Payload::Piece::kBytes:
        out.append(payload.key_, p.begin, p.end - p.begin);
        break;
      case Payload::Piece::kAttr:
        AppendVarint(static_cast<uint64_t>(attributes_.number[id]), &out);
        break;
      case Payload::Piece::kPresentAttr:
        AppendVarint(static_cast<uint64_t>(attributes_.number[id]) << 1 | 1, &out);
        break;
      case Payload::Piece::kType:
        AppendVarint(static_cast<uint64_t>(types_.number[id]), &out);
        break;
      case Payload::Piece::kTypeSet:
      case Payload::Piece::kTypeClear:
        AppendVarint(static_cast<uint64_t>(types_.number[id]) << 1 | (p.kind == Payload::Piece::kTypeSet), &out);
        break;
      case Payload::Piece::kOpName:
        AppendVarint(static_cast<uint64_t>(op_names_.number[id]), &out);
        break;
      case Payload::Piece::kSection: {
        const std::string inner = Encode(payload.sections_[id]);  // the section's number is written already
        AppendVarint(inner.size(), &out);
        out += inner;
        break;
      }
    }
  }
  return out;
}

void Tables::AppendSection(uint8_t id, absl::string_view content, std::string* out) const {
  out->push_back(static_cast<char>(id));
  AppendVarint(content.size(), out);
  out->append(content.data(), content.size());
}

std::string Tables::Finish(int version, absl::string_view producer, const Payload& ir) {
  const int dialects[] = {String("builtin"), String("vhlo")};
  attributes_.Sort();
  types_.Sort();
  op_names_.Sort();
  auto groups = [](const Interned& table, auto&& each, std::string* out) {
    for (size_t i = 0; i < table.order.size();) {
      size_t end = i;
      const Dialect dialect = table.entries[table.order[i]].dialect;
      while (end < table.order.size() && table.entries[table.order[end]].dialect == dialect) ++end;
      AppendVarint(static_cast<uint64_t>(dialect), out);
      AppendVarint(end - i, out);
      for (; i < end; ++i) each(table.entries[table.order[i]].payload);
    }
  };

  std::string names, offsets, data;
  AppendVarint(2, &names);
  for (int d : dialects) AppendVarint(version >= 1 ? static_cast<uint64_t>(d) << 1 : static_cast<uint64_t>(d), &names);
  if (version >= 4) AppendVarint(op_names_.entries.size(), &names);
  groups(
      op_names_,
      [&](const Payload& p) {
        // The payload is the name itself. Names of registered operations carry a flag.
        const uint64_t name = static_cast<uint64_t>(String(Encode(p)));
        AppendVarint(version < 5 ? name : name << 1 | 1, &names);
      },
      &names);

  AppendVarint(attributes_.entries.size(), &offsets);
  AppendVarint(types_.entries.size(), &offsets);
  for (const Interned* table : {&attributes_, &types_}) {
    groups(
        *table,
        [&](const Payload& p) {
          const std::string bytes = Encode(p);
          AppendVarint(static_cast<uint64_t>(bytes.size()) << 1 | 1, &offsets);
          data += bytes;
        },
        &offsets);
  }

  std::string strings, properties;
  AppendVarint(strings_.size(), &strings);
  for (size_t i = strings_.size(); i > 0; --i) AppendVarint(strings_[i - 1].size() + 1, &strings);
  for (const std::string& s : strings_) strings.append(s.c_str(), s.size() + 1);
  AppendVarint(properties_.size(), &properties);
  for (const Payload& p : properties_) {
    const std::string bytes = Encode(p);
    AppendVarint(bytes.size(), &properties);
    properties += bytes;
  }

  std::string out = "ML\xEFR";
  AppendVarint(static_cast<uint64_t>(version), &out);
  out.append(producer.data(), producer.size());
  out.push_back('\0');
  AppendSection(1, names, &out);
  AppendSection(3, offsets, &out);
  AppendSection(2, data, &out);
  AppendSection(4, Encode(ir), &out);
  std::string none;
  AppendVarint(0, &none);
  AppendSection(6, none, &out);
  AppendSection(5, "", &out);
  AppendSection(0, strings, &out);
  if (version >= 5) AppendSection(8, properties, &out);
  return out;
}

}  // namespace backplane::stablehlo
