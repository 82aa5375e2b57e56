//! Defects that tests plant in this library, to show that the harnesses notice. Without the feature `planted` there are
//! none, and what asks for one is compiled away.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is named as what is done wrong")]
pub enum Defect {
    FollowersAreAnsweredBeforeTheCommit = 1,
    RefusalsAreAnsweredBeforeTheCommit,
    SqliteBeginsDeferred,
    SqliteDoesNotWaitForLocks,
    SqliteSwallowsAFailedCommit,
    MigrationHasNoTransaction,
    ChecksumsAreNotCompared,
    SqliteOpensInAFork,
}

/// Whether a defect is planted.
#[inline(always)]
pub fn is_planted(defect: Defect) -> bool {
    #[cfg(feature = "planted")]
    return PLANTED.load(std::sync::atomic::Ordering::Relaxed) == defect as u8;
    #[cfg(not(feature = "planted"))]
    {
        let _ = defect;
        false
    }
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a defect in the whole process, until what is answered is dropped. Only one can be planted at a time: who asks
/// for another one waits.
#[cfg(feature = "planted")]
pub fn plant(defect: Defect) -> Planted {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let one = crate::gate::lock(&ONE);
    PLANTED.store(defect as u8, std::sync::atomic::Ordering::SeqCst);
    Planted(one)
}

/// A defect that is planted.
#[cfg(feature = "planted")]
#[derive(Debug)]
pub struct Planted(#[allow(dead_code, reason = "held until it is dropped")] std::sync::MutexGuard<'static, ()>);

#[cfg(feature = "planted")]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.store(0, std::sync::atomic::Ordering::SeqCst);
    }
}
