#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"
#include "sdk/layers/record/session_file.h"

namespace backplane::record {
namespace {

constexpr uint64_t kMagicSize = 16, kFrameHead = 16, kPieceHead = 56;

template <typename T>
T Number(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

uint32_t Crc(absl::string_view kind, uint64_t size, absl::string_view payload) {
  auto add = [](uint32_t crc, const void* data, size_t n) {
    return n == 0 ? crc : static_cast<uint32_t>(crc32_z(crc, static_cast<const unsigned char*>(data), n));
  };
  return add(add(add(0, kind.data(), kind.size()), &size, sizeof(size)), payload.data(), payload.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionReader>> SessionReader::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("session: ", path, ": ", std::strerror(errno)));
  std::unique_ptr<SessionReader> reader(new SessionReader(path, fd));
  struct stat facts;
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
    return absl::InvalidArgumentError(absl::StrCat("session: ", path, ": not a file"));
  reader->file_bytes_ = static_cast<uint64_t>(facts.st_size);
  BP_RETURN_IF_ERROR(host::AddContext(reader->Scan(), path));
  return reader;
}

SessionReader::~SessionReader() { close(fd_); }

absl::Status SessionReader::ReadAt(uint64_t offset, uint64_t size, char* to) const {
  for (size_t have = 0; have < size;) {
    const ssize_t got = pread(fd_, to + have, size - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrCat("session: byte ", offset + have, ": ",
                                              got < 0 ? std::strerror(errno) : "the file has become shorter"));
    }
    have += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status SessionReader::Scan() {
  if (file_bytes_ < kMagicSize)
    return absl::InvalidArgumentError(absl::StrCat("not a recorded session: ", file_bytes_, " bytes"));
  char magic[kMagicSize] = {};
  BP_RETURN_IF_ERROR(ReadAt(0, kMagicSize, magic));
  static constexpr char kMagic[] =
      "\x89"
      "BPREC\r\n";
  if (std::memcmp(magic, kMagic, 8) != 0)
    return absl::InvalidArgumentError("not a recorded session: it begins with other bytes");
  if (const auto version = Number<uint32_t>(magic + 8); version != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("session: version ", version, " of the format, this build reads version 1"));
  }
  uint64_t at = kMagicSize;
  while (at < file_bytes_) {
    if (file_bytes_ - at < kFrameHead) break;
    char head[kFrameHead] = {};
    BP_RETURN_IF_ERROR(ReadAt(at, kFrameHead, head));
    const absl::string_view kind(head, 4);
    const auto crc = Number<uint32_t>(head + 4);
    const auto size = Number<uint64_t>(head + 8);
    if (kind != "INFO" && kind != "OPER" && kind != "BLOB" && kind != "LAST")
      return absl::DataLossError(absl::StrCat("session: byte ", at, ": no frame begins here"));
    if (size > kMaxPayload) {
      return absl::DataLossError(
          absl::StrCat("session: byte ", at, ": a frame of ", size, " bytes, at most ", kMaxPayload));
    }
    if (size > file_bytes_ - at - kFrameHead) break;
    BP_RETURN_IF_ERROR(ScanFrame(at, kind, crc, size));
    at += kFrameHead + size;
  }
  lost_bytes_ = file_bytes_ - at;
  if (lost_bytes_ > 0) complete_ = false;
  if (!have_info_) return absl::DataLossError("session: the file ends before the description of the session");
  return absl::OkStatus();
}

absl::Status SessionReader::CheckedPayload(uint64_t at, absl::string_view kind, uint32_t crc, uint64_t size,
                                           std::string* out) const {
  out->resize(static_cast<size_t>(size));
  BP_RETURN_IF_ERROR(ReadAt(at + kFrameHead, size, out->data()));
  if (Crc(kind, size, *out) != crc)
    return absl::DataLossError(absl::StrCat("session: byte ", at, ": the frame is damaged (checksum)"));
  return absl::OkStatus();
}

absl::Status SessionReader::ScanFrame(uint64_t at, absl::string_view kind, uint32_t crc, uint64_t size) {
  if (!have_info_ && kind != "INFO")
    return absl::DataLossError(absl::StrCat("session: byte ", at, ": expected the description of the session"));
  if (kind == "BLOB") {
    // The bytes themselves are compared with the digest when they are read.
    if (size < kPieceHead)
      return absl::DataLossError(absl::StrCat("session: byte ", at, ": a piece of a blob of ", size, " bytes"));
    char head[kPieceHead] = {};
    BP_RETURN_IF_ERROR(ReadAt(at + kFrameHead, kPieceHead, head));
    Digest digest;
    std::memcpy(digest.data(), head, digest.size());
    const auto total = Number<uint64_t>(head + 32);
    const Piece piece{at, size, Number<uint64_t>(head + 40), Number<uint32_t>(head + 48), Number<uint32_t>(head + 52)};
    Blob& blob = blobs_[digest];
    if (blob.pieces.empty()) blob.size = total;
    const uint64_t stored = size - kPieceHead;
    if (piece.bytes > kPieceSize || piece.codec > 1 || total != blob.size || piece.offset != blob.have ||
        piece.bytes > total - blob.have || (piece.codec == 0 && stored != piece.bytes)) {
      return absl::DataLossError(absl::StrCat("session: byte ", at, ": a piece of ", piece.bytes, " bytes at ",
                                              piece.offset, " of a blob of ", total, " bytes, of which ", blob.have,
                                              " are there"));
    }
    blob.have += piece.bytes;
    blob.pieces.push_back(piece);
    return absl::OkStatus();
  }
  std::string payload;
  BP_RETURN_IF_ERROR(CheckedPayload(at, kind, crc, size, &payload));
  if (kind == "INFO") {
    if (have_info_) return absl::DataLossError(absl::StrCat("session: byte ", at, ": a second description"));
    BP_ASSIGN_OR_RETURN(info_, DecodeInfo(payload));
    have_info_ = true;
  } else if (kind == "OPER") {
    BP_RETURN_IF_ERROR(host::AddContext(DecodeOperation(payload).status(), absl::StrCat("byte ", at)));
    operations_.push_back({at + kFrameHead, size});
    complete_ = false;
  } else {
    if (size != 8 || Number<uint64_t>(payload.data()) != operations_.size()) {
      return absl::DataLossError(absl::StrCat("session: byte ", at, ": the closing frame does not fit the ",
                                              operations_.size(), " operations before it"));
    }
    complete_ = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<Operation> SessionReader::At(size_t i) const {
  if (i >= operations_.size()) {
    return absl::OutOfRangeError(absl::StrCat("session: operation at ", i, " of ", operations_.size()));
  }
  std::string payload(static_cast<size_t>(operations_[i].size), '\0');
  BP_RETURN_IF_ERROR(ReadAt(operations_[i].offset, operations_[i].size, payload.data()));
  return DecodeOperation(payload);
}

bool SessionReader::HasBlob(const BlobRef& blob) const {
  const auto found = blobs_.find(blob.digest);
  return found != blobs_.end() && found->second.size == blob.size && found->second.have == blob.size;
}

absl::Status SessionReader::ReadBlob(const BlobRef& blob,
                                     const std::function<absl::Status(absl::Span<const std::byte>)>& sink) const {
  const std::string name = FormatHex(blob.digest).substr(0, 12);
  const auto found = blobs_.find(blob.digest);
  if (found == blobs_.end())
    return absl::NotFoundError(absl::StrCat("session: blob ", name, " of ", blob.size, " bytes is not in the file"));
  if (!HasBlob(blob)) {
    return absl::NotFoundError(absl::StrCat("session: blob ", name, ": ", found->second.have, " of ",
                                            found->second.size, " bytes are in the file, expected ", blob.size));
  }
  Sha256 sha;
  std::string unpacked;
  for (const Piece& piece : found->second.pieces) {
    std::string payload;
    char head[kFrameHead] = {};
    BP_RETURN_IF_ERROR(ReadAt(piece.frame, kFrameHead, head));
    BP_RETURN_IF_ERROR(CheckedPayload(piece.frame, "BLOB", Number<uint32_t>(head + 4), piece.payload_size, &payload));
    absl::string_view bytes = absl::string_view(payload).substr(kPieceHead);
    if (piece.codec == 1) {
      unpacked.resize(piece.bytes);
      const size_t size = ZSTD_decompress(unpacked.data(), unpacked.size(), bytes.data(), bytes.size());
      if (ZSTD_isError(size) != 0 || size != piece.bytes)
        return absl::DataLossError(absl::StrCat("session: byte ", piece.frame, ": the piece does not unpack"));
      bytes = unpacked;
    }
    const absl::Span<const std::byte> span(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
    sha.Update(span);
    BP_RETURN_IF_ERROR(sink(span));
  }
  if (sha.Finish() != blob.digest)
    return absl::DataLossError(absl::StrCat("session: blob ", name, ": its bytes have another digest"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> SessionReader::ReadBlob(const BlobRef& blob, uint64_t limit) const {
  if (blob.size > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("session: a blob of ", blob.size, " bytes, at most ", limit, " are read here"));
  }
  // Zeros compress well, so a small file can claim a large blob. Memory is allocated only for decompressed bytes.
  std::string bytes;
  if (HasBlob(blob)) bytes.reserve(static_cast<size_t>(std::min(blob.size, uint64_t{64} << 20)));
  BP_RETURN_IF_ERROR(ReadBlob(blob, [&](absl::Span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return absl::OkStatus();
  }));
  return bytes;
}

}  // namespace backplane::record
