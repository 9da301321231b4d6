#include <fcntl.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/layers/record/session_file.h"

namespace backplane::record {
namespace {

void Append(std::string* out, const void* data, size_t size) { out->append(static_cast<const char*>(data), size); }
template <typename T>
void AppendNumber(std::string* out, T value) {
  Append(out, &value, sizeof(value));  // little-endian, like all our targets
}

uint32_t Crc(uint32_t crc, absl::string_view bytes) {
  if (bytes.empty()) return crc;  // zlib would restart at a null pointer
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

}  // namespace

StridedSource::StridedSource(const void* data, size_t element_size, absl::Span<const int64_t> dims,
                             absl::Span<const int64_t> byte_strides)
    : data_(static_cast<const std::byte*>(data)),
      element_size_(element_size),
      dims_(dims.begin(), dims.end()),
      strides_(byte_strides.begin(), byte_strides.end()) {
  Rewind();
}

void StridedSource::Rewind() {
  at_.assign(dims_.size(), 0);
  done_ = false;
  for (int64_t dim : dims_) done_ = done_ || dim == 0;
}

absl::Span<const std::byte> StridedSource::Next() {
  piece_.clear();
  if (done_) return piece_;
  piece_.reserve(kPieceSize);
  const int last = static_cast<int>(dims_.size()) - 1;
  while (!done_ && piece_.size() + element_size_ <= kPieceSize) {
    const std::byte* from = data_;
    for (size_t d = 0; d < dims_.size(); ++d) from += at_[d] * strides_[d];
    // As much of the last dimension as fits.
    int64_t take = 1;
    if (last >= 0) {
      const auto capacity = static_cast<int64_t>((kPieceSize - piece_.size()) / element_size_);
      take = std::min(capacity, dims_[static_cast<size_t>(last)] - at_[static_cast<size_t>(last)]);
    }
    const int64_t step = last >= 0 ? strides_[static_cast<size_t>(last)] : 0;
    if (step == static_cast<int64_t>(element_size_)) {
      piece_.insert(piece_.end(), from, from + take * step);
    } else {
      for (int64_t i = 0; i < take; ++i, from += step) piece_.insert(piece_.end(), from, from + element_size_);
    }
    if (last < 0) {
      done_ = true;
      break;
    }
    at_[static_cast<size_t>(last)] += take;
    for (int d = last; d >= 0 && at_[static_cast<size_t>(d)] == dims_[static_cast<size_t>(d)]; --d) {
      at_[static_cast<size_t>(d)] = 0;
      if (d == 0) {
        done_ = true;
      } else {
        ++at_[static_cast<size_t>(d) - 1];
      }
    }
  }
  return piece_;
}

absl::StatusOr<std::unique_ptr<SessionWriter>> SessionWriter::Create(const std::string& path,
                                                                     const Settings& settings) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return absl::FailedPreconditionError(absl::StrCat("session: ", path, ": ", std::strerror(errno)));
  // Two processes must not write one file; a host may start others with its own environment.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 || ftruncate(fd, 0) != 0) {
    const bool taken = errno == EWOULDBLOCK;
    const std::string text =
        absl::StrCat("session: ", path, ": ", taken ? "somebody is writing it" : std::strerror(errno));
    close(fd);
    return taken ? absl::AlreadyExistsError(text) : absl::FailedPreconditionError(text);
  }
  std::unique_ptr<SessionWriter> writer(new SessionWriter(path, fd, settings));
  std::string magic(
      "\x89"
      "BPREC\r\n",
      8);
  AppendNumber<uint32_t>(&magic, 1);
  AppendNumber<uint32_t>(&magic, 0);
  if (write(fd, magic.data(), magic.size()) != static_cast<ssize_t>(magic.size()))
    return absl::FailedPreconditionError(absl::StrCat("session: ", path, ": ", std::strerror(errno)));
  MutexLock lock(writer->mutex_);
  writer->bytes_ = magic.size();
  return writer;
}

void SessionWriter::Describe(const SessionInfo& info) {
  MutexLock lock(mutex_);
  WriteFrame("INFO", EncodeInfo(info), "");
}

SessionWriter::~SessionWriter() {
  if (fd_ >= 0) close(fd_);
}

// A frame is written with one call, so a host that
// crashes leaves no incomplete frame unless the system stops.
void SessionWriter::WriteFrame(absl::string_view kind, absl::string_view head, absl::string_view body) {
  if (!status_.ok() || fd_ < 0) return;
  const uint64_t size = head.size() + body.size();
  if (size > kMaxPayload) {
    status_ = absl::ResourceExhaustedError(absl::StrCat("session: a frame of ", size, " bytes, at most ", kMaxPayload));
    return;
  }
  if (settings_.size_limit != 0 && !at_limit_ && bytes_ + size + 16 > settings_.size_limit) {
    // The last frame, so that the file says why it ends.
    at_limit_ = true;
    Operation last;
    last.kind = Kind::kObstacle;
    last.number = ++last_number_;
    last.name = "limit";
    last.obstacle =
        absl::StrCat("recording ended here: the file was not to have more than ", settings_.size_limit, " bytes");
    WriteFrame("OPER", EncodeOperation(last), "");
    ++operations_;
    status_ = absl::ResourceExhaustedError(absl::StrCat("session: ", path_, ": ", last.obstacle));
    return;
  }
  std::string frame(kind.data(), kind.size());
  std::string size_bytes;
  AppendNumber(&size_bytes, size);
  AppendNumber(&frame, Crc(Crc(Crc(Crc(0, kind), size_bytes), head), body));
  frame += size_bytes;
  iovec buffers[3] = {{frame.data(), frame.size()},
                      {const_cast<char*>(head.data()), head.size()},
                      {const_cast<char*>(body.data()), body.size()}};
  int first = 0;
  size_t left = frame.size() + static_cast<size_t>(size);
  while (left > 0) {
    const ssize_t done = writev(fd_, buffers + first, 3 - first);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      status_ = absl::ResourceExhaustedError(
          absl::StrCat("session: ", path_, ": ", std::strerror(errno), " after ", bytes_, " bytes"));
      return;
    }
    left -= static_cast<size_t>(done);
    for (auto skip = static_cast<size_t>(done); skip > 0;) {
      const size_t here = std::min(skip, buffers[first].iov_len);
      buffers[first].iov_base = static_cast<char*>(buffers[first].iov_base) + here;
      buffers[first].iov_len -= here;
      skip -= here;
      if (buffers[first].iov_len == 0 && first < 2) ++first;
    }
  }
  bytes_ += frame.size() + size;
}

void SessionWriter::WritePiece(const BlobRef& blob, uint64_t offset, absl::Span<const std::byte> piece) {
  std::string packed;
  uint32_t codec = 0;
  if (settings_.compression != 0 && piece.size() >= 64) {
    packed.resize(ZSTD_compressBound(piece.size()));
    const size_t size = ZSTD_compress(packed.data(), packed.size(), piece.data(), piece.size(), settings_.compression);
    if (ZSTD_isError(size) == 0 &&
        size < piece.size() - piece.size() / 16) {  // otherwise decompressing it is not worthwhile
      packed.resize(size);
      codec = 1;
    }
  }
  std::string head;
  Append(&head, blob.digest.data(), blob.digest.size());
  AppendNumber<uint64_t>(&head, blob.size);
  AppendNumber<uint64_t>(&head, offset);
  AppendNumber<uint32_t>(&head, static_cast<uint32_t>(piece.size()));
  AppendNumber<uint32_t>(&head, codec);
  const absl::string_view body = codec == 1
                                     ? absl::string_view(packed)
                                     : absl::string_view(reinterpret_cast<const char*>(piece.data()), piece.size());
  MutexLock lock(mutex_);
  WriteFrame("BLOB", head, body);
}

BlobRef SessionWriter::AddBlob(ByteSource& source, bool keep) {
  Sha256 sha;
  BlobRef blob;
  for (auto piece = source.Next(); !piece.empty(); piece = source.Next()) {
    sha.Update(piece);
    blob.size += piece.size();
  }
  blob.digest = sha.Finish();
  if (!keep) return blob;
  {
    // Another thread may refer to the blob before all of it is written; the index does not depend on the order.
    MutexLock lock(mutex_);
    if (!status_.ok() || fd_ < 0 || !known_.insert(blob.digest).second) return blob;
  }
  source.Rewind();
  uint64_t offset = 0;
  for (auto piece = source.Next(); !piece.empty() && offset < blob.size; piece = source.Next()) {
    WritePiece(blob, offset, piece);
    offset += piece.size();
  }
  if (blob.size == 0) WritePiece(blob, 0, {});
  return blob;
}

uint64_t SessionWriter::Add(Operation& operation) {
  MutexLock lock(mutex_);
  if (operation.number == 0) operation.number = last_number_ + 1;
  last_number_ = std::max(last_number_, operation.number);
  WriteFrame("OPER", EncodeOperation(operation), "");
  if (status_.ok()) ++operations_;
  return operation.number;
}

void SessionWriter::Finish() {
  MutexLock lock(mutex_);
  std::string count;
  AppendNumber<uint64_t>(&count, operations_);
  WriteFrame("LAST", count, "");
}

absl::Status SessionWriter::status() const {
  MutexLock lock(mutex_);
  return status_;
}
uint64_t SessionWriter::num_operations() const {
  MutexLock lock(mutex_);
  return operations_;
}
uint64_t SessionWriter::bytes_written() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace backplane::record
