// Records the last call of a check in memory that outlives its process, so that the runner knows which call aborted or
// hung.
#ifndef BACKPLANE_CONFORMANCE_KIT_LAST_CALL_H_
#define BACKPLANE_CONFORMANCE_KIT_LAST_CALL_H_

#include <atomic>
#include <string>

namespace backplane::conformance {

class LastCall {
 public:
  // Creates a record, or opens an inherited one by its file descriptor. Returns null if the system refuses.
  static LastCall* Create(int* fd);
  static LastCall* Open(int fd);
  void Close();  // destroys `this`

  // Thread-safe; the last writer wins. `call` must be a string constant.
  void Enter(const char* call);
  void Leave();
  std::string Describe() const;  // "in PJRT_Event_Await", "after PJRT_Event_Await", or ""
  void Clear();

 private:
  std::atomic<int> inside_;
  char call_[120];
};

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_LAST_CALL_H_
