//! Kills a primary under load and promotes its standby, on two servers of its own: `cargo xtask failover`.

mod steps;

fn main() {
    steps::failover(&mut |step| println!("{step}"));
}
