//! stub
#![allow(missing_docs, clippy::all)]
use std::time::Duration;
use super::ProviderError;
#[derive(Clone,Copy,Debug)] pub struct RetryPolicy{}
pub struct RetryState; impl RetryState{ pub fn new(_:RetryPolicy)->Self{Self} pub fn next(&mut self,_:&ProviderError,_:f64)->Verdict{Verdict::GiveUp{attempts:1}}}
pub enum Verdict{Retry{attempt:u32,delay:Duration,max_retries:u32},GiveUp{attempts:u32}}
#[derive(Clone,Debug)] pub struct ModelInfo{pub window:u64,pub max_output:u32,pub price:Option<crate::domain::Price>}
pub struct CallSlots; pub struct CallSlot;
impl CallSlots{ pub fn try_acquire(&self)->Option<CallSlot>{None} pub async fn acquire(&self)->CallSlot{CallSlot} pub fn limit(&self)->usize{256}}
