// The file of a recorded session (.bprec), written and read.
//
// A file consists of a magic line and frames, which are only appended, so the calls before a crash of the host can be
// read.
//   8 bytes   89 'B' 'P' 'R' 'E' 'C' 0d 0a
//   4 bytes   version of the format: 1
//   4 bytes   zero
// then frames, all numbers little-endian:
//   4 bytes   what it is: 'INFO' (first, once), 'OPER', 'BLOB', 'LAST' (a session that was closed)
//   4 bytes   CRC-32 (that of zlib) of the kind, the size and the payload
//   8 bytes   size of the payload: at most kMaxPayload
//   payload
// INFO and OPER: SessionInfo and Operation in the protobuf wire format. LAST: the number of operations (8 bytes). BLOB:
// a piece of a blob: its SHA-256 (32 bytes), total size (8), offset of the piece (8), bytes in the piece (4, at most
// kPieceSize), codec (4; 0: none, 1: zstd), then the bytes. A blob is identified by its digest and stored once. Its
// pieces are in the order of their offsets, before the first operation that refers to it.
//
// The reader scans the frames to build an index. If a file ends within a frame or has no LAST, the host ended abruptly:
// the complete frames can be used, and complete() is false. Anything else that is invalid is an error with its
// position. No memory is allocated for a size that has not been compared with that of the file.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_SESSION_FILE_H_
#define BACKPLANE_SDK_LAYERS_RECORD_SESSION_FILE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "sdk/layers/record/operation.h"

namespace backplane::record {

inline constexpr uint64_t kMaxPayload = uint64_t{16} << 20;
inline constexpr uint32_t kPieceSize = uint32_t{4} << 20;

// Supplies the bytes of a blob in order, piece by piece, and returns false at the end. After Rewind it starts again.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At most kPieceSize bytes, valid until the next call; empty at the end.
  virtual absl::Span<const std::byte> Next() = 0;
  virtual void Rewind() = 0;
};
// A source in memory.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(absl::Span<const std::byte> bytes) : bytes_(bytes) {}
  explicit MemorySource(absl::string_view bytes)
      : bytes_(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()) {}
  absl::Span<const std::byte> Next() override {
    const absl::Span<const std::byte> piece = bytes_.subspan(at_, kPieceSize);
    at_ += piece.size();
    return piece;
  }
  void Rewind() override { at_ = 0; }

 private:
  absl::Span<const std::byte> bytes_;
  size_t at_ = 0;
};
// An array in host memory with byte strides, as dense row-major bytes. `data` is the address of element zero.
class StridedSource : public ByteSource {
 public:
  StridedSource(const void* data, size_t element_size, absl::Span<const int64_t> dims,
                absl::Span<const int64_t> byte_strides);
  absl::Span<const std::byte> Next() override;
  void Rewind() override;

 private:
  const std::byte* const data_;
  const size_t element_size_;
  const std::vector<int64_t> dims_, strides_;
  std::vector<int64_t> at_;
  bool done_ = false;
  std::vector<std::byte> piece_;
};

// Thread-safe. An error such as a full disk is kept: later calls do nothing and return it.
class SessionWriter {
 public:
  struct Settings {
    int compression = 1;      // zstd level; 0: none
    uint64_t size_limit = 0;  // the largest size of the file in bytes; 0: no limit
  };
  // Creates or truncates the file. Returns FAILED_PRECONDITION if it cannot be written, ALREADY_EXISTS if it is being
  // written by another process or by this one.
  static absl::StatusOr<std::unique_ptr<SessionWriter>> Create(const std::string& path, const Settings& settings);
  ~SessionWriter();

  // Must be called first, once.
  void Describe(const SessionInfo& info);
  // Returns the digest of the source's bytes. Writes them, unless the file contains them already or `keep` is false.
  // Reads the source twice if it writes them.
  BlobRef AddBlob(ByteSource& source, bool keep = true);
  BlobRef AddBlob(absl::string_view bytes) {
    MemorySource source(bytes);
    return AddBlob(source);
  }
  // Writes the operation and returns its number. If its number is zero, it gets the next one.
  uint64_t Add(Operation& operation);
  // Writes that the session has ended. Further operations may follow; the last LAST counts.
  void Finish();

  absl::Status status() const;
  uint64_t num_operations() const;
  uint64_t bytes_written() const;
  const std::string& path() const { return path_; }
  // In a child process after a fork: the file belongs to the parent, so nothing more is written.
  void Abandon() { fd_ = -1; }

 private:
  SessionWriter(std::string path, int fd, const Settings& settings)
      : path_(std::move(path)), settings_(settings), fd_(fd) {}
  void WriteFrame(absl::string_view kind, absl::string_view head, absl::string_view body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WritePiece(const BlobRef& blob, uint64_t offset, absl::Span<const std::byte> piece);

  const std::string path_;
  const Settings settings_;
  int fd_;
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool at_limit_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0, operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<Digest> known_ ABSL_GUARDED_BY(mutex_);
};

// Immutable after Open; thread-safe.
class SessionReader {
 public:
  // Reads and checks all operations and the headers of all pieces. Returns NOT_FOUND, or DATA_LOSS with the position in
  // the file.
  static absl::StatusOr<std::unique_ptr<SessionReader>> Open(const std::string& path);
  ~SessionReader();

  const std::string& path() const { return path_; }
  const SessionInfo& info() const { return info_; }
  size_t size() const { return operations_.size(); }
  // Returns the i-th operation. It is decoded each time, so that a long session needs little memory.
  absl::StatusOr<Operation> At(size_t i) const;
  // Whether the session was closed; and the number of bytes after the last complete frame.
  bool complete() const { return complete_; }
  uint64_t lost_bytes() const { return lost_bytes_; }
  uint64_t file_bytes() const { return file_bytes_; }

  size_t num_blobs() const { return blobs_.size(); }
  bool HasBlob(const BlobRef& blob) const;
  // Passes the blob to `sink` piece by piece and compares the digest. Returns NOT_FOUND if the file does not contain
  // all of it.
  absl::Status ReadBlob(const BlobRef& blob,
                        const std::function<absl::Status(absl::Span<const std::byte>)>& sink) const;
  // Returns the complete blob. Returns RESOURCE_EXHAUSTED above `limit` bytes.
  absl::StatusOr<std::string> ReadBlob(const BlobRef& blob, uint64_t limit = uint64_t{1} << 34) const;

 private:
  struct Location {
    uint64_t offset, size;  // of the payload
  };
  struct Piece {
    uint64_t frame, payload_size;  // position of the frame
    uint64_t offset;
    uint32_t bytes, codec;
  };
  struct Blob {
    uint64_t size = 0, have = 0;
    std::vector<Piece> pieces;
  };
  explicit SessionReader(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Scan();
  absl::Status ScanFrame(uint64_t at, absl::string_view kind, uint32_t crc, uint64_t size);
  absl::Status ReadAt(uint64_t offset, uint64_t size, char* to) const;
  absl::Status CheckedPayload(uint64_t at, absl::string_view kind, uint32_t crc, uint64_t size, std::string* out) const;

  const std::string path_;
  const int fd_;
  SessionInfo info_;
  bool complete_ = false, have_info_ = false;
  uint64_t lost_bytes_ = 0, file_bytes_ = 0;
  std::vector<Location> operations_;
  std::map<Digest, Blob> blobs_;
};

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_SESSION_FILE_H_
