// Zip archives as numpy writes them (.npz): reads stored and deflated members, writes stored ones.
#include <zlib.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sdk/cli/npy.h"

namespace backplane::cli {
namespace {

constexpr uint64_t kMaxMember = uint64_t{1} << 34;

absl::Status BrokenZip(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("npz: ", what)); }

uint32_t Read(absl::string_view bytes, size_t at, int width) {
  uint32_t value = 0;
  for (int i = 0; i < width; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

void Write(uint64_t value, int width, std::string* out) {
  for (int i = 0; i < width; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

absl::StatusOr<std::string> Inflate(absl::string_view packed, size_t size) {
  // Deflate compresses at most about a thousand to one. A larger claimed size is wrong, which is detected before memory
  // is allocated.
  if (size > kMaxMember || size / 1040 > packed.size() + 1) return BrokenZip("a member states an impossible size");
  std::string out(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return absl::ResourceExhaustedError("npz: no memory to inflate");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  size_t in_left = packed.size(), out_left = size;
  int code = Z_OK;
  do {  // zlib counts in 32 bits
    stream.avail_in = static_cast<uInt>(std::min<size_t>(in_left, 1u << 30));
    stream.avail_out = static_cast<uInt>(std::min<size_t>(out_left, 1u << 30));
    const uInt in_before = stream.avail_in, out_before = stream.avail_out;
    code = inflate(&stream, Z_NO_FLUSH);
    in_left -= in_before - stream.avail_in;
    out_left -= out_before - stream.avail_out;
    if (code == Z_BUF_ERROR || (in_before == stream.avail_in && out_before == stream.avail_out)) break;
  } while (code == Z_OK);
  inflateEnd(&stream);
  if (code != Z_STREAM_END || out_left != 0) return BrokenZip("a member cannot be inflated");
  return out;
}

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseZip(absl::string_view bytes) {
  constexpr size_t kEnd = 22, kEntry = 46, kLocal = 30;
  if (bytes.size() < kEnd) return BrokenZip("not a zip archive");
  // The end record is at the end, followed by a comment of at most 65535 bytes.
  size_t end = bytes.size() - kEnd;
  const size_t lowest = bytes.size() > kEnd + 65535 ? bytes.size() - kEnd - 65535 : 0;
  while (Read(bytes, end, 4) != 0x06054b50) {
    if (end-- == lowest) return BrokenZip("not a zip archive");
  }
  const size_t count = Read(bytes, end + 10, 2);
  size_t at = Read(bytes, end + 16, 4);
  std::vector<std::pair<std::string, std::string>> members;
  for (size_t i = 0; i < count; ++i) {
    if (at > bytes.size() || bytes.size() - at < kEntry || Read(bytes, at, 4) != 0x02014b50)
      return BrokenZip("its directory is broken");
    const uint32_t flags = Read(bytes, at + 8, 2), method = Read(bytes, at + 10, 2), crc = Read(bytes, at + 16, 4);
    const size_t packed = Read(bytes, at + 20, 4), size = Read(bytes, at + 24, 4), name_size = Read(bytes, at + 28, 2);
    const size_t local = Read(bytes, at + 42, 4);
    const size_t next = at + kEntry + name_size + Read(bytes, at + 30, 2) + Read(bytes, at + 32, 2);
    if (next > bytes.size()) return BrokenZip("its directory is broken");
    absl::string_view name = bytes.substr(at + kEntry, name_size);
    if (packed == 0xFFFFFFFF || size == 0xFFFFFFFF || local == 0xFFFFFFFF)
      return absl::UnimplementedError("npz: zip64 archives");
    if ((flags & 1) != 0) return absl::UnimplementedError("npz: encrypted members");
    if (local > bytes.size() || bytes.size() - local < kLocal || Read(bytes, local, 4) != 0x04034b50)
      return BrokenZip("a member is broken");
    const size_t data = local + kLocal + Read(bytes, local + 26, 2) + Read(bytes, local + 28, 2);
    if (data > bytes.size() || packed > bytes.size() - data) return BrokenZip("a member is truncated");
    std::string content;
    if (method == 0) {
      content = std::string(bytes.substr(data, packed));
    } else if (method == 8) {
      absl::StatusOr<std::string> inflated = Inflate(bytes.substr(data, packed), size);
      if (!inflated.ok()) return inflated.status();
      content = *std::move(inflated);
    } else {
      return absl::UnimplementedError(absl::StrCat("npz: compression method ", method));
    }
    if (content.size() != size || crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()) != crc) {
      return BrokenZip(absl::StrCat("member ", name, ": its check sum does not fit"));
    }
    absl::ConsumeSuffix(&name, ".npy");
    members.emplace_back(std::string(name), std::move(content));
    at = next;
  }
  return members;
}

absl::StatusOr<std::string> FormatZip(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out, directory;
  if (members.size() > 0xFFFF) return absl::UnimplementedError("npz: more than 65535 members");
  for (const auto& [stem, content] : members) {
    const std::string name = absl::StrCat(stem, ".npy");
    const size_t local = out.size();
    if (local + content.size() > 0xFFFFFF00) return absl::UnimplementedError("npz: more than 4 GiB needs zip64");
    const uint32_t crc =
        static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
    auto common = [&](std::string* to) {  // from "version needed" to "extra field length"
      Write(20, 2, to), Write(0, 2, to), Write(0, 2, to);
      Write(0, 2, to), Write(0x21, 2, to);  // 1980-01-01, so that the same arrays give the same bytes
      Write(crc, 4, to), Write(content.size(), 4, to), Write(content.size(), 4, to);
      Write(name.size(), 2, to), Write(0, 2, to);
    };
    Write(0x04034b50, 4, &out);
    common(&out);
    absl::StrAppend(&out, name, content);
    Write(0x02014b50, 4, &directory);
    Write(20, 2, &directory);
    common(&directory);
    Write(0, 2, &directory), Write(0, 2, &directory), Write(0, 2, &directory), Write(0, 4, &directory);
    Write(local, 4, &directory);
    absl::StrAppend(&directory, name);
  }
  const size_t start = out.size();
  absl::StrAppend(&out, directory);
  Write(0x06054b50, 4, &out), Write(0, 2, &out), Write(0, 2, &out);
  Write(members.size(), 2, &out), Write(members.size(), 2, &out);
  Write(directory.size(), 4, &out), Write(start, 4, &out), Write(0, 2, &out);
  return out;
}

}  // namespace backplane::cli
